//! The API server of a test: objects, clients, and a log of requests.
//!
//! It is strict: it forbids requests that the role of its clients does not allow, lists only the objects that the
//! selectors select, refuses to create an object whose name is taken and to change a fixed field, and answers a write
//! that carries another uid or an old resource version with a conflict.
//!
//! Unless a test calls [`Server::deliver_all_except`], a watch delivers no change after what it begins with.

use super::access::Access;
use super::faults::Failure;
use super::memory::{Call, Memory, refuse};
use super::refusal::{Refusal, conflict, refused};
use axum::body::Body as Answer;
use http::header::ACCEPT;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

/// A connection to a server, whose memory it shares with the test.
#[derive(Clone, Default)]
pub struct Server {
    memory: Arc<Mutex<Memory>>,
    outage: Arc<Mutex<Option<Failure>>>,
    /// Wakes those that wait for requests.
    received: Arc<Notify>,
    /// How many more requests are answered: all, unless the test has set a number.
    answers: Arc<watch::Sender<Option<usize>>>,
}

impl Server {
    /// A server without objects.
    pub fn new(access: Access) -> Self {
        let server = Self::default();
        server.lock().access = access;
        server
    }

    /// A client of this connection. It needs a runtime of tokio.
    pub fn client(&self) -> Client {
        let (service, mut handle) = tower_test::mock::pair::<Request<Body>, Response<Answer>>();
        let server = self.clone();
        tokio::spawn(async move {
            // Kept, because the end of one would be an answer.
            let mut unanswered = Vec::new();
            while let Some((request, respond)) = handle.next_request().await {
                server.await_turn().await;
                match server.answer_or_fail(request).await {
                    Some(answer) => respond.send_response(answer),
                    None => unanswered.push(respond),
                }
            }
        });
        Client::new(service, "default")
    }

    /// Another connection to the same server, with outages of its own.
    #[must_use]
    pub fn another_connection(&self) -> Self {
        Self { outage: Arc::default(), ..self.clone() }
    }

    /// Lets each request of this connection fail from now on, or none.
    pub fn set_outage(&self, outage: Option<Failure>) {
        *self.outage.lock().unwrap() = outage;
    }

    /// Answers so many requests from now on, and lets the others wait; all of them with `None`.
    pub fn limit_answers(&self, requests: Option<usize>) {
        self.answers.send_replace(requests);
    }

    async fn await_turn(&self) {
        let mut answers = self.answers.subscribe();
        // It cannot fail, because this connection has the sender.
        let _ = answers.wait_for(|left| *left != Some(0)).await;
        self.answers.send_modify(|left| *left = left.map(|left| left.saturating_sub(1)));
    }

    /// From now on watches deliver all changes except those of objects of these kinds, in the plural.
    pub fn deliver_all_except(&self, held: &[&'static str]) {
        self.with(|memory| memory.held = Some(held.to_vec()));
    }

    /// Calls `work` with the memory, and sends the watches the changes.
    pub fn with<T>(&self, work: impl FnOnce(&mut Memory) -> T) -> T {
        let mut memory = self.lock();
        let result = work(&mut memory);
        memory.notify_watches();
        result
    }

    /// Puts an object at `path`, as somebody else would have created it.
    pub fn put(&self, path: &str, object: Value) {
        self.with(|memory| memory.store.put(path, object));
    }

    /// Lets somebody else put `object` at `path` right after a client has read there, by its name or in a list.
    pub fn intrude(&self, path: &str, object: Value) {
        self.lock().faults.intruders.insert(path.to_owned(), object);
    }

    /// Adds kinds of other projects to what discovery lists: the version of a group, the kind in the plural, its name.
    pub fn serve_kinds(&self, kinds: &[(&str, &str, &str)]) {
        let mut groups = Vec::new();
        for (group_version, plural, kind) in kinds {
            let (group, version) = group_version.split_once('/').unwrap();
            let version = json!({ "groupVersion": group_version, "version": version });
            groups.push(json!({
                "name": group, "versions": [version], "preferredVersion": version,
            }));
            let resources = json!({
                "kind": "APIResourceList", "groupVersion": group_version, "resources": [{
                    "name": plural, "singularName": kind.to_lowercase(), "namespaced": true,
                    "kind": kind, "verbs": ["list"],
                }],
            });
            self.put(&format!("/apis/{group_version}"), resources);
        }
        let list = json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups });
        self.put("/apis", list);
    }

    pub fn get(&self, path: &str) -> Option<Value> {
        self.lock().store.get(path).cloned()
    }

    /// The paths of all objects in the collection at `path`.
    pub fn paths(&self, path: &str) -> Vec<String> {
        self.lock().store.inside(path).map(|(path, _)| path.clone()).collect()
    }

    /// Removes the object at `path` at once.
    pub fn remove(&self, path: &str) {
        self.with(|memory| memory.store.remove(path));
    }

    /// Changes the object at `path`, as somebody else would.
    pub fn change(&self, path: &str, change: impl FnOnce(&mut Value)) {
        self.with(|memory| {
            let mut object = memory.store.get(path).unwrap().clone();
            change(&mut object);
            memory.store.put(path, object);
        });
    }

    /// Refuses writes to `path` from now on.
    pub fn refuse(&self, path: &str, code: u16, message: &str) {
        let refusal = refused(code, message);
        self.lock().faults.refusals.insert(path.to_owned(), refusal);
    }

    /// Refuses no write from now on.
    pub fn accept_all(&self) {
        self.lock().faults.refusals.clear();
    }

    /// Gives the server a release that clients may read, and nodes that they may list.
    pub fn set_release(&self, release: &str, nodes: Option<Vec<Value>>) {
        let mut memory = self.lock();
        memory.release = Some(release.to_owned());
        memory.nodes = nodes;
    }

    /// How often there was this request, as `METHOD path`, since the last call of [`Self::writes`].
    pub fn requests(&self, request: &str) -> usize {
        self.lock().log.iter().filter(|other| *other == request).count()
    }

    /// Resolves when there was each of `requests`, as `METHOD path`, since the last call of [`Self::writes`].
    pub async fn await_requests(&self, requests: impl Iterator<Item = String>) {
        let mut left: BTreeSet<String> = requests.collect();
        let mut seen = 0;
        loop {
            // Each request from here on wakes it.
            let received = self.received.notified();
            for line in &self.lock().log[seen..] {
                left.remove(line);
                seen += 1;
            }
            if left.is_empty() {
                return;
            }
            received.await;
        }
    }

    /// The writes since the last call, as `METHOD path`.
    pub fn writes(&self) -> Vec<String> {
        let mut log = std::mem::take(&mut self.lock().log);
        log.retain(|line| !line.starts_with("GET "));
        log
    }

    /// The bodies of all writes since the beginning.
    pub fn bodies(&self) -> Vec<Value> {
        self.lock().bodies.clone()
    }

    pub fn note(&self, text: &str) {
        self.lock().note(text);
    }

    /// All requests with their answers, and the notes between them.
    pub fn journal(&self) -> Vec<String> {
        self.lock().journal.clone()
    }

    /// How many watches have begun and not ended.
    pub fn watches(&self) -> usize {
        self.lock().watches.len()
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap()
    }

    /// The answer to one request; `None` where it gets none.
    async fn answer_or_fail(&self, request: Request<Body>) -> Option<Response<Answer>> {
        // After a failure watches begin again at random times.
        let next = || if is_watch(&request) { None } else { self.lock().faults.take_next() };
        let outage = *self.outage.lock().unwrap();
        let failure = outage.or_else(next);
        let Some(failure) = failure else { return Some(self.answer(request).await) };
        self.note(&format!("  {} {} {failure:?}", request.method(), request.uri()));
        let failed = |code| Some(refuse(&fault(code)));
        match failure {
            Failure::Refused(code) => failed(code),
            Failure::Swallowed => None,
            Failure::Lost(code) => {
                let answer = failed(code);
                self.answer(request).await;
                answer
            }
            Failure::Unanswered => {
                self.answer(request).await;
                None
            }
        }
    }

    /// The answer to one request, without faults.
    pub async fn answer(&self, request: Request<Body>) -> Response<Answer> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let header = |name| parts.headers.get(name).map_or("", |value| value.to_str().unwrap());
        let call = Call {
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or_default(),
            whole: !header(ACCEPT).contains("as=PartialObjectMetadata"),
            body,
        };
        let answer = self.with(|memory| {
            let answer = memory.answer(&parts.method, &call);
            let (method, uri, code) = (&parts.method, &parts.uri, answer.status().as_u16());
            let what = if call.whole { "" } else { " of metadata" };
            memory.note(&format!("  {method} {uri} {code}{what}"));
            answer
        });
        self.received.notify_waiters();
        answer
    }
}

fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.contains("watch=true"))
}

/// The answer with this code. A fault with 409 is a changing quota, because a server is never wrong about a taken name.
fn fault(code: u16) -> Refusal {
    if code == 409 { conflict("a quota") } else { refused(code, "fault") }
}
