//! As much of an API server as the reconciler talks to: objects by path, and a log of requests.

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The server's memory, shared with the test.
#[derive(Clone, Default)]
pub(crate) struct Server(Arc<Mutex<Memory>>);

#[derive(Default)]
struct Memory {
    objects: BTreeMap<String, Value>,
    pods: Vec<Value>,
    events: Vec<Value>,
    log: Vec<String>,
    bodies: Vec<Value>,
    refusals: BTreeMap<String, (u16, String)>,
}

impl Server {
    /// A client that talks to this server.
    pub(crate) fn client(&self) -> Client {
        let (service, mut handle) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
        let server = self.clone();
        tokio::spawn(async move {
            while let Some((request, respond)) = handle.next_request().await {
                respond.send_response(server.answer(request).await);
            }
        });
        Client::new(service, "default")
    }

    /// Puts an object at `path`.
    pub(crate) fn put(&self, path: &str, object: Value) {
        self.0.lock().unwrap().objects.insert(path.to_owned(), object);
    }

    /// The object at `path`.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.get(path).cloned()
    }

    /// Removes the object at `path`.
    pub(crate) fn remove(&self, path: &str) {
        self.0.lock().unwrap().objects.remove(path);
    }

    /// Changes the object at `path`.
    pub(crate) fn change(&self, path: &str, change: impl FnOnce(&mut Value)) {
        change(self.0.lock().unwrap().objects.get_mut(path).unwrap());
    }

    /// The pods that every list of pods holds.
    pub(crate) fn put_pods(&self, pods: Vec<Value>) {
        self.0.lock().unwrap().pods = pods;
    }

    /// The Events that every list of Events holds.
    pub(crate) fn put_events(&self, events: Vec<Value>) {
        self.0.lock().unwrap().events = events;
    }

    /// Refuses writes to `path` from now on.
    pub(crate) fn refuse(&self, path: &str, code: u16, message: &str) {
        self.0.lock().unwrap().refusals.insert(path.to_owned(), (code, message.to_owned()));
    }

    /// Takes refusals back.
    pub(crate) fn accept_all(&self) {
        self.0.lock().unwrap().refusals.clear();
    }

    /// The writes since the last call, as `METHOD path`.
    pub(crate) fn writes(&self) -> Vec<String> {
        let mut log = std::mem::take(&mut self.0.lock().unwrap().log);
        log.retain(|line| !line.starts_with("GET "));
        log
    }

    /// The bodies of all writes since the beginning.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.0.lock().unwrap().bodies.clone()
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = parts.uri.path().to_owned();
        let mut memory = self.0.lock().unwrap();
        memory.log.push(format!("{} {path}", parts.method));
        if parts.method != Method::GET {
            memory.bodies.push(body.clone());
            if let Some((code, message)) = memory.refusals.get(&path) {
                return refusal(*code, message);
            }
        }
        match parts.method {
            Method::GET if path.ends_with("/pods") => respond(
                200,
                &json!({
                    "apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": memory.pods,
                }),
            ),
            Method::GET if path == "/api/v1/namespaces/work/events" => respond(
                200,
                &json!({
                    "apiVersion": "v1", "kind": "EventList", "metadata": {},
                    "items": memory.events,
                }),
            ),
            Method::GET => match memory.objects.get(&path) {
                Some(object) => respond(200, object),
                None => refusal(404, "not found"),
            },
            Method::POST => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let path = format!("{path}/{name}");
                if memory.objects.contains_key(&path) {
                    return refusal(409, "already exists");
                }
                memory.objects.insert(path, body.clone());
                respond(201, &body)
            }
            Method::PATCH => patch(&mut memory, &path, &body),
            Method::DELETE => match memory.objects.remove(&path) {
                Some(object) => respond(200, &object),
                None => refusal(404, "not found"),
            },
            _ => refusal(405, "not here"),
        }
    }
}

/// Merges `body` into what is at `path`, as far as these tests need it.
fn patch(memory: &mut Memory, path: &str, body: &Value) -> Response<Body> {
    let target = path.trim_end_matches("/status");
    let object = memory.objects.entry(target.to_owned()).or_insert_with(|| json!({}));
    if target == path {
        merge(object, body);
    } else {
        object["status"] = body["status"].clone();
    }
    if object["kind"] == "Job" {
        object["metadata"]["uid"] = json!("job-uid");
    }
    if object["kind"] == "Service" && object["spec"]["clusterIP"].is_null() {
        object["spec"]["clusterIP"] = json!("10.96.0.7");
    }
    respond(200, object)
}

fn merge(object: &mut Value, patch: &Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    object.remove(key);
                } else {
                    merge(object.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (object, patch) => *object = patch.clone(),
    }
}

fn refusal(code: u16, message: &str) -> Response<Body> {
    let reason = match code {
        404 => "NotFound",
        409 => "AlreadyExists",
        403 => "Forbidden",
        _ => "InternalError",
    };
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    respond(code, &status)
}

fn respond(code: u16, body: &Value) -> Response<Body> {
    let body = Body::from(serde_json::to_vec(body).unwrap());
    Response::builder().status(code).body(body).unwrap()
}
