//! An API server in which other people have made large objects with the label that the operator gives its own, and a
//! thousand MiniClusters with specifications as large as an API server stores.

use super::{NAMESPACE, collection};
use axum::body::Body;
use http::{Method, Request, Response};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// How many there are of a kind, and how many KiB of text each holds.
const CROWDS: [(&str, usize, usize); 5] = [
    ("MiniCluster", 1000, 250),
    ("ConfigMap", 300, 900),
    ("Service", 100, 250),
    ("Job", 100, 250),
    ("Pod", 100, 250),
];

/// The server.
#[derive(Clone, Default)]
pub(crate) struct Hostile {
    reported: Arc<Mutex<BTreeSet<String>>>,
    written: Arc<Notify>,
}

impl Hostile {
    /// Resolves when each MiniCluster has a status.
    pub(crate) async fn all_were_reported(&self) {
        let [(_, clusters, _), ..] = CROWDS;
        loop {
            let written = self.written.notified();
            if self.reported.lock().unwrap().len() == clusters {
                return;
            }
            written.await;
        }
    }

    /// Answers one request.
    pub(crate) async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = parts.uri.path();
        match parts.method {
            Method::GET => read(path, parts.uri.query().unwrap_or_default()),
            Method::PATCH => {
                let object = path.strip_suffix("/status").unwrap();
                let name = object.rsplit_once('/').unwrap().1;
                let metadata = metadata("MiniCluster", name);
                let answer = json!({ "metadata": metadata, "spec": {}, "status": sent["status"] });
                self.reported.lock().unwrap().insert(name.to_owned());
                self.written.notify_waiters();
                respond(200, answer.to_string())
            }
            _ => respond(201, sent.to_string()),
        }
    }
}

/// A page of a list, or a MiniCluster. Of the others none is found by its name.
fn read(path: &str, query: &str) -> Response<Body> {
    for (kind, count, size) in CROWDS {
        let of_kind = collection(kind);
        if path == of_kind {
            return respond(200, page(kind, count, size, query));
        }
        if kind == "MiniCluster"
            && let Some(name) = path.strip_prefix(&format!("{of_kind}/"))
        {
            return respond(200, object(kind, name, size));
        }
    }
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": "NotFound", "message": "not found", "code": 404,
    });
    respond(404, status.to_string())
}

fn page(kind: &str, count: usize, size: usize, query: &str) -> String {
    let words: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    let number = |name: &str| {
        let word = words.iter().find(|(key, _)| key == name);
        word.and_then(|(_, value)| value.parse::<usize>().ok())
    };
    let from = number("continue").unwrap_or(0);
    let to = count.min(from + number("limit").unwrap());
    let items: Vec<String> =
        (from..to).map(|number| object(kind, &format!("{kind}-{number}"), size)).collect();
    let next = if to < count { to.to_string() } else { String::new() };
    format!(
        r#"{{"kind":"{kind}List","apiVersion":"v1","metadata":{{"resourceVersion":"1","continue":"{next}"}},"items":[{}]}}"#,
        items.join(",")
    )
}

/// An object with `size` KiB of text: a MiniCluster whose command is too long to be valid, or an object of somebody
/// else, of which every other one says that a MiniCluster owns it, or a Job where it is a pod.
fn object(kind: &str, name: &str, size: usize) -> String {
    const TEXT: &str = "(text)";
    let mut object = json!({ "metadata": metadata(kind, name) });
    match kind {
        "MiniCluster" => {
            object["spec"] = json!({ "containers": [{ "image": "app", "command": TEXT }] });
        }
        "ConfigMap" => object["data"] = json!({ "text": TEXT }),
        _ => object["metadata"]["annotations"] = json!({ "example.org/text": TEXT }),
    }
    if kind == "Job" {
        object["spec"] = json!({ "template": {} });
    }
    object.to_string().replace(TEXT, &"x".repeat(size * 1024))
}

fn metadata(kind: &str, name: &str) -> Value {
    let mut metadata = json!({
        "name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}"), "resourceVersion": "1",
        "generation": 1, "labels": { "app.kubernetes.io/managed-by": "flux-operator" },
    });
    if kind != "MiniCluster" && name.ends_with(['1', '3', '5', '7', '9']) {
        let owner = if kind == "Pod" { "Job" } else { "MiniCluster" };
        metadata["ownerReferences"] = json!([{
            "apiVersion": "flux-framework.org/v1alpha2", "kind": owner, "name": format!("of-{name}"),
            "uid": "forged", "controller": true,
        }]);
    }
    metadata
}

fn respond(code: u16, body: String) -> Response<Body> {
    Response::builder().status(code).body(Body::from(body)).unwrap()
}
