//! As much of an API server as the operator talks to: objects by path, and a log of requests.
//!
//! It is strict: what the operator's own role does not allow is forbidden, a list holds what its
//! selectors select, a name that is taken cannot be created again, and a write that carries another
//! uid or an old resource version is a conflict.
//!
//! A watch brings what there was when it began and nothing after it. The list of `MiniClusters` comes
//! when all other watches have begun: whatever is reconciled meets what they have brought.

use super::rights;
use http::header::ACCEPT;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// Watches of the controller beside that of the `MiniClusters`: Jobs, Services, `ConfigMaps`, companions,
/// leads, and leads without a label.
const OTHER_WATCHES: usize = 6;

/// The server's memory, shared with the test, and the way there.
#[derive(Clone, Default)]
pub(crate) struct Server(Arc<Mutex<Memory>>, Arc<Mutex<Option<Outage>>>, Arc<Notify>);

#[derive(Default)]
struct Memory {
    objects: BTreeMap<String, Value>,
    log: Vec<String>,
    bodies: Vec<Value>,
    refusals: BTreeMap<String, (u16, String)>,
    intruders: BTreeMap<String, Value>,
    version: u64,
    release: Option<String>,
    nodes: Option<Vec<Value>>,
}

/// What is wrong with the way to the server.
#[derive(Clone, Copy)]
pub(crate) enum Outage {
    /// It takes requests and answers none.
    Silent,
    /// It answers each with this code.
    Answers(u16),
}

impl Server {
    /// A client that talks to this server.
    pub(crate) fn client(&self) -> Client {
        let (service, mut handle) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
        let server = self.clone();
        tokio::spawn(async move {
            // Held, not dropped: a dropped one would be an answer.
            let (mut unanswered, mut waiting, mut watches) = (Vec::new(), Vec::new(), 0);
            while let Some((request, respond)) = handle.next_request().await {
                let is_watch = request.uri().query().is_some_and(|it| it.contains("watch=true"));
                watches += usize::from(is_watch);
                match server.outage() {
                    Some(Outage::Answers(code)) => respond.send_response(refusal(code, "outage")),
                    Some(Outage::Silent) => unanswered.push(respond),
                    None if is_watch => unanswered.push(respond),
                    None if request.uri().path().ends_with("/miniclusters") => {
                        waiting.push((request, respond));
                    }
                    None => respond.send_response(server.answer(request).await),
                }
                if watches >= OTHER_WATCHES {
                    for (request, respond) in waiting.drain(..) {
                        respond.send_response(server.answer(request).await);
                    }
                }
            }
        });
        Client::new(service, "default")
    }

    /// Another way to the same server, with outages of its own.
    pub(crate) fn another_way(&self) -> Self {
        Self(Arc::clone(&self.0), Arc::default(), Arc::clone(&self.2))
    }

    /// Breaks this way to the server, or mends it.
    pub(crate) fn set_outage(&self, outage: Option<Outage>) {
        *self.1.lock().unwrap() = outage;
    }

    fn outage(&self) -> Option<Outage> {
        *self.1.lock().unwrap()
    }

    /// Puts an object at `path`, as somebody else would have created it.
    pub(crate) fn put(&self, path: &str, object: Value) {
        self.0.lock().unwrap().store(path, object);
    }

    /// Lets somebody else put `object` at `path` right after the operator has found nothing there,
    /// or in place of what it has found there, by its name or in a list.
    pub(crate) fn intrude(&self, path: &str, object: Value) {
        self.0.lock().unwrap().intruders.insert(path.to_owned(), object);
    }

    /// The object at `path`.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.get(path).cloned()
    }

    /// The paths of all objects of the collection at `path`.
    pub(crate) fn paths(&self, path: &str) -> Vec<String> {
        let memory = self.0.lock().unwrap();
        let inside = memory.objects.keys().filter(|other| other.starts_with(&format!("{path}/")));
        inside.cloned().collect()
    }

    /// Removes the object at `path`.
    pub(crate) fn remove(&self, path: &str) {
        self.0.lock().unwrap().objects.remove(path);
    }

    /// Changes the object at `path`.
    pub(crate) fn change(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut memory = self.0.lock().unwrap();
        let mut object = memory.objects[path].clone();
        change(&mut object);
        memory.store(path, object);
    }

    /// Puts `objects` into the collection at `path`, in place of all that are there with `label`.
    pub(crate) fn replace(&self, path: &str, label: &str, objects: Vec<Value>) {
        let mut memory = self.0.lock().unwrap();
        let inside = format!("{path}/");
        memory.objects.retain(|path, object| !path.starts_with(&inside) || !has(object, label));
        for object in objects {
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            memory.store(&format!("{inside}{name}"), object);
        }
    }

    /// Refuses writes to `path` from now on.
    pub(crate) fn refuse(&self, path: &str, code: u16, message: &str) {
        self.0.lock().unwrap().refusals.insert(path.to_owned(), (code, message.to_owned()));
    }

    /// Gives the server a release, and nodes that the operator may list.
    pub(crate) fn runs(&self, release: &str, nodes: Option<Vec<Value>>) {
        let mut memory = self.0.lock().unwrap();
        memory.release = Some(release.to_owned());
        memory.nodes = nodes;
    }

    /// How often `path` was read since writes were last asked for.
    pub(crate) fn reads(&self, path: &str) -> usize {
        let line = format!("GET {path}");
        self.0.lock().unwrap().log.iter().filter(|other| **other == line).count()
    }

    /// Resolves when each of `paths` was read since writes were last asked for.
    pub(crate) async fn all_were_read(&self, paths: impl Iterator<Item = String>) {
        let mut left: BTreeSet<String> = paths.map(|path| format!("GET {path}")).collect();
        let mut looked_at = 0;
        loop {
            // It is told of each request from here on.
            let asked = self.2.notified();
            for line in &self.0.lock().unwrap().log[looked_at..] {
                left.remove(line);
                looked_at += 1;
            }
            if left.is_empty() {
                return;
            }
            asked.await;
        }
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

    /// True when there was this request, as `METHOD path`, since the writes were asked for.
    pub(crate) fn was_asked(&self, request: &str) -> bool {
        self.0.lock().unwrap().log.iter().any(|line| line == request)
    }

    /// The bodies of all writes since the beginning.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.0.lock().unwrap().bodies.clone()
    }

    /// All objects, each with its path.
    pub(crate) fn everything(&self) -> Vec<(String, Value)> {
        self.0.lock().unwrap().objects.clone().into_iter().collect()
    }

    /// Answers one request, which is no watch.
    pub(crate) async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = parts.uri.path().to_owned();
        let mut memory = self.0.lock().unwrap();
        memory.log.push(format!("{} {path}", parts.method));
        self.2.notify_waiters();
        if let Some(answer) = memory.of_no_namespace(&path, parts.uri.query().unwrap_or_default()) {
            return answer;
        }
        if !rights::allowed(&parts.method, &path, parts.uri.query().unwrap_or_default()) {
            return refusal(403, "the operator's role does not allow it");
        }
        if parts.method != Method::GET {
            memory.bodies.push(body.clone());
            let created = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap_or(""));
            let refused = memory.refusals.get(&path).or_else(|| memory.refusals.get(&created));
            if let Some((code, message)) = refused {
                return refusal(*code, message);
            }
        }
        match parts.method {
            Method::GET => {
                let accepted = parts.headers.get(ACCEPT).map_or("", |it| it.to_str().unwrap());
                let whole = !accepted.contains("as=PartialObjectMetadata");
                memory.read(&path, parts.uri.query().unwrap_or_default(), whole)
            }
            Method::POST => memory.create(&path, &body),
            Method::PUT => memory.write(&path, &body, |object| *object = body.clone()),
            Method::PATCH => memory.patch(&path, &body),
            Method::DELETE => match memory.objects.remove(&path) {
                Some(object) => respond(200, &object),
                None => refusal(404, "not found"),
            },
            _ => refusal(405, "not here"),
        }
    }
}

impl Memory {
    /// Stores an object with a resource version of its own, a uid and what else a server fills in.
    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["kind"] == "Job" && object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!("job-uid");
        }
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}", self.version));
        }
        if object["kind"] == "Service" && object["spec"]["clusterIP"].is_null() {
            object["spec"]["clusterIP"] = json!("10.96.0.7");
        }
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    /// An object or a list; without `whole` only the metadata of what is listed.
    fn read(&mut self, path: &str, query: &str, whole: bool) -> Response<Body> {
        let kinds = [
            ("/pods", "Pod"),
            ("/events", "Event"),
            ("/jobs", "Job"),
            ("/services", "Service"),
            ("/configmaps", "ConfigMap"),
            ("/miniclusters", "MiniCluster"),
            ("/workloads", "Workload"),
        ];
        if let Some((_, kind)) = kinds.iter().find(|(end, _)| path.ends_with(end)) {
            return self.list(path, kind, query, whole);
        }
        let found = self.objects.get(path).map(|object| respond(200, object));
        if let Some(intruder) = self.intruders.remove(path) {
            self.store(path, intruder);
        }
        found.unwrap_or_else(|| refusal(404, "not found"))
    }

    /// What lies in no namespace: an operator for one namespace may not read it, so it is there only
    /// where a test says so.
    fn of_no_namespace(&self, path: &str, query: &str) -> Option<Response<Body>> {
        match path {
            "/version" => {
                let release = self.release.as_ref()?;
                let fields = [
                    "major",
                    "minor",
                    "gitCommit",
                    "gitTreeState",
                    "buildDate",
                    "goVersion",
                    "compiler",
                    "platform",
                ];
                let mut version: BTreeMap<&str, &str> = fields.map(|field| (field, "")).into();
                version.insert("gitVersion", release);
                Some(respond(200, &json!(version)))
            }
            "/api/v1/nodes" => {
                let nodes: Vec<&Value> = self.nodes.as_ref()?.iter().collect();
                let query = words(query);
                assert!(query.contains_key("limit"), "all nodes are listed at once");
                Some(page("Node", self.version, &nodes, &query, true))
            }
            // What kinds there are, everybody may ask.
            _ if path.starts_with("/apis") && path.split('/').count() <= 4 => {
                let none = json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [] });
                Some(respond(200, self.objects.get(path).unwrap_or(&none)))
            }
            _ => None,
        }
    }

    fn list(&mut self, path: &str, kind: &str, query: &str, whole: bool) -> Response<Body> {
        let query = words(query);
        let terms = |selector: &str| {
            let selector = query.get(selector).map_or("", String::as_str);
            selector.split(',').filter(|term| !term.is_empty()).collect::<Vec<_>>()
        };
        let (labels, fields) = (terms("labelSelector"), terms("fieldSelector"));
        let selected = |object: &&Value| {
            labels.iter().all(|term| has(object, term))
                && fields.iter().all(|term| {
                    let (field, value) = term.split_once('=').unwrap();
                    object.pointer(&format!("/{}", field.replace('.', "/"))) == Some(&json!(value))
                })
        };
        let inside = self.objects.iter().filter(|(it, _)| it.starts_with(&format!("{path}/")));
        let items: Vec<&Value> = inside.map(|(_, object)| object).filter(selected).collect();
        let list = page(kind, self.version, &items, &query, whole);
        let is_inside = |it: &String| it.starts_with(&format!("{path}/"));
        let intruders: Vec<String> =
            self.intruders.keys().filter(|it| is_inside(it)).cloned().collect();
        for path in intruders {
            let intruder = self.intruders.remove(&path).unwrap_or_default();
            self.store(&path, intruder);
        }
        list
    }

    fn create(&mut self, path: &str, body: &Value) -> Response<Body> {
        let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let path = format!("{path}/{name}");
        if self.objects.contains_key(&path) {
            return refusal(409, "already exists");
        }
        respond(201, &self.store(&path, body.clone()))
    }

    /// Merges `body` into what is at `path`, as far as these tests need it.
    fn patch(&mut self, path: &str, body: &Value) -> Response<Body> {
        let target = path.trim_end_matches("/status").to_owned();
        self.write(&target, body, |object| {
            if target == path {
                merge(object, body);
            } else {
                object["status"] = body["status"].clone();
            }
        })
    }

    /// Changes what is at `path`, unless `body` names another object or another version of it.
    fn write(
        &mut self,
        path: &str,
        body: &Value,
        change: impl FnOnce(&mut Value),
    ) -> Response<Body> {
        let Some(mut object) = self.objects.get(path).cloned() else {
            return refusal(404, "not found");
        };
        for field in ["uid", "resourceVersion"] {
            let given = &body["metadata"][field];
            if !given.is_null() && *given != object["metadata"][field] {
                return conflict(field);
            }
        }
        change(&mut object);
        respond(200, &self.store(path, object))
    }
}

type Words = BTreeMap<String, String>;

fn words(query: &str) -> Words {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// As many of `items` as are asked for, from where the page before has ended; their metadata, if not `whole`.
fn page(kind: &str, version: u64, items: &[&Value], query: &Words, whole: bool) -> Response<Body> {
    let number = |name: &str| query.get(name).and_then(|text| text.parse::<usize>().ok());
    let from = number("continue").unwrap_or(0).min(items.len());
    let to = number("limit").map_or(items.len(), |limit| items.len().min(from + limit));
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if to < items.len() {
        metadata["continue"] = json!(to.to_string());
    }
    let of = |item: &&Value| json!({ "metadata": item["metadata"] });
    let items =
        if whole { json!(items[from..to]) } else { items[from..to].iter().map(of).collect() };
    let list = json!({
        "apiVersion": "v1", "kind": format!("{kind}List"), "metadata": metadata, "items": items,
    });
    respond(200, &list)
}

/// Whether the labels of `object` meet one term of a selector.
fn has(object: &Value, term: &str) -> bool {
    let labels = &object["metadata"]["labels"];
    match (term.strip_prefix('!'), term.split_once('=')) {
        (Some(key), _) => labels[key].is_null(),
        (None, Some((key, value))) => labels[key] == value,
        (None, None) => !labels[term].is_null(),
    }
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

fn conflict(field: &str) -> Response<Body> {
    status(409, "Conflict", &format!("the object has been modified: {field}"))
}

fn refusal(code: u16, message: &str) -> Response<Body> {
    let reason = match code {
        404 => "NotFound",
        409 => "AlreadyExists",
        403 => "Forbidden",
        _ => "InternalError",
    };
    status(code, reason, message)
}

fn status(code: u16, reason: &str, message: &str) -> Response<Body> {
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
