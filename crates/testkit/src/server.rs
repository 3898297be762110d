//! The API server that the operator talks to in tests: the [`simulation`](super::simulation)'s objects,
//! and a log of requests.
//!
//! It is strict: what the operator's own role does not allow is forbidden, a list holds what its
//! selectors select, a name that is taken cannot be created again, a write that carries another uid or
//! an old resource version is a conflict, and what nobody may change is refused.
//!
//! Unless a test says otherwise, a watch brings what there was when it began and nothing after it.

use super::simulation::api::{Asked, Memory, News, refuse};
pub(crate) use super::simulation::faults::Failure;
use super::simulation::refusal::{Refusal, conflict, refused};
use super::world::CONFIG;
use axum::body::Body as Answer;
use flux_contract::AgentConfig;
use http::header::ACCEPT;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

/// How the lists are asked for that watches begin with. After a failure they come again at random times.
const OF_A_WATCH: &str = "limit=5";

/// The server's memory, shared with the test, and the way there.
#[derive(Clone, Default)]
pub(crate) struct Server {
    memory: Arc<Mutex<Memory>>,
    outage: Arc<Mutex<Option<Failure>>>,
    asked: Arc<Notify>,
    /// How many requests are answered: all of them, unless somebody says how many.
    passes: Arc<watch::Sender<Option<usize>>>,
}
impl Server {
    pub(crate) fn client(&self) -> Client {
        let (service, mut handle) = tower_test::mock::pair::<Request<Body>, Response<Answer>>();
        let server = self.clone();
        tokio::spawn(async move {
            // Held, not dropped: a dropped one would be an answer.
            let mut unanswered = Vec::new();
            while let Some((request, respond)) = handle.next_request().await {
                server.pass().await;
                match server.answer_or_fail(request).await {
                    Some(answer) => respond.send_response(answer),
                    None => unanswered.push(respond),
                }
            }
        });
        Client::new(service, "default")
    }

    /// Another way to the same server, with outages of its own.
    pub(crate) fn another_way(&self) -> Self {
        Self { outage: Arc::default(), ..self.clone() }
    }

    /// Lets each request on this way to the server fail, or no more.
    pub(crate) fn set_outage(&self, outage: Option<Failure>) {
        *self.outage.lock().unwrap() = outage;
    }

    /// How many requests are answered now: `None` for all.
    pub(crate) fn let_pass(&self, requests: Option<usize>) {
        self.passes.send_replace(requests);
    }

    async fn pass(&self) {
        let mut passes = self.passes.subscribe();
        // The sender is ours.
        let _ = passes.wait_for(|left| *left != Some(0)).await;
        self.passes.send_modify(|left| *left = left.map(|left| left.saturating_sub(1)));
    }

    /// From now on watches bring what happens, but for objects of these kinds, in the plural.
    pub(crate) fn brings_news_but_of(&self, held: &[&'static str]) {
        let mut memory = self.lock();
        memory.news = News::AllBut(held.to_vec());
        memory.notify_watches();
    }

    /// Does something with the memory, and sends the watches what has changed.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Memory) -> T) -> T {
        let mut memory = self.lock();
        let result = work(&mut memory);
        memory.notify_watches();
        result
    }

    /// Puts an object at `path`, as somebody else would have created it.
    pub(crate) fn put(&self, path: &str, object: Value) {
        self.with(|memory| memory.store.put(path, object));
    }

    /// Lets somebody else put `object` at `path` right after the operator has found nothing there,
    /// or in place of what it has found there, by its name or in a list.
    pub(crate) fn intrude(&self, path: &str, object: Value) {
        self.lock().faults.intruders.insert(path.to_owned(), object);
    }

    /// Gives the server kinds of other people: the version of a group, a kind in the plural, its name.
    pub(crate) fn serves(&self, kinds: &[(&str, &str, &str)]) {
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

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.lock().store.get(path).cloned()
    }

    /// The configuration that the agents of the MiniCluster read.
    pub(crate) fn agent_config(&self) -> AgentConfig {
        let object = self.get(CONFIG).unwrap();
        AgentConfig::from_toml(object["data"]["agent.toml"].as_str().unwrap()).unwrap()
    }

    pub(crate) fn paths(&self, path: &str) -> Vec<String> {
        self.lock().store.inside(path).map(|(path, _)| path.clone()).collect()
    }

    pub(crate) fn remove(&self, path: &str) {
        self.with(|memory| memory.store.remove(path));
    }

    pub(crate) fn change(&self, path: &str, change: impl FnOnce(&mut Value)) {
        self.with(|memory| {
            let mut object = memory.store.get(path).unwrap().clone();
            change(&mut object);
            memory.store.put(path, object);
        });
    }

    /// Refuses writes to `path` from now on.
    pub(crate) fn refuse(&self, path: &str, code: u16, message: &str) {
        let refusal = refused(code, message);
        self.lock().faults.refusals.insert(path.to_owned(), refusal);
    }

    pub(crate) fn accept_all(&self) {
        self.lock().faults.refusals.clear();
    }

    /// Gives the server a release, and nodes that the operator may list.
    pub(crate) fn runs(&self, release: &str, nodes: Option<Vec<Value>>) {
        let mut memory = self.lock();
        memory.release = Some(release.to_owned());
        memory.nodes = nodes;
    }

    /// How often there was this request, as `METHOD path`, since writes were last asked for.
    pub(crate) fn requests(&self, request: &str) -> usize {
        self.lock().log.iter().filter(|other| *other == request).count()
    }

    /// Resolves when each of `requests`, as `METHOD path`, has come since writes were last asked for.
    pub(crate) async fn await_requests(&self, requests: impl Iterator<Item = String>) {
        let mut left: BTreeSet<String> = requests.collect();
        let mut looked_at = 0;
        loop {
            // It counts each request from here on.
            let asked = self.asked.notified();
            for line in &self.lock().log[looked_at..] {
                left.remove(line);
                looked_at += 1;
            }
            if left.is_empty() {
                return;
            }
            asked.await;
        }
    }

    /// The writes since the last call, as `METHOD path`.
    pub(crate) fn writes(&self) -> Vec<String> {
        let mut log = std::mem::take(&mut self.lock().log);
        log.retain(|line| !line.starts_with("GET "));
        log
    }

    /// The bodies of all writes since the beginning.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.lock().bodies.clone()
    }

    pub(crate) fn note(&self, text: &str) {
        self.lock().note(text);
    }

    /// All requests with their answers, and what was noted between them.
    pub(crate) fn journal(&self) -> Vec<String> {
        self.lock().journal.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap()
    }

    /// Answers one request; nothing where it gets no answer.
    async fn answer_or_fail(&self, request: Request<Body>) -> Option<Response<Answer>> {
        let counts = !is_watch(&request)
            && !request.uri().query().is_some_and(|query| query.contains(OF_A_WATCH));
        let next = || if counts { self.lock().faults.next() } else { None };
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

    pub(crate) async fn answer(&self, request: Request<Body>) -> Response<Answer> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let header = |name| parts.headers.get(name).map_or("", |value| value.to_str().unwrap());
        let asked = Asked {
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or_default(),
            whole: !header(ACCEPT).contains("as=PartialObjectMetadata"),
            body,
        };
        let answer = self.with(|memory| {
            let answer = memory.answer(&parts.method, &asked);
            let (method, uri, code) = (&parts.method, &parts.uri, answer.status().as_u16());
            let what = if asked.whole { "" } else { " of metadata" };
            memory.note(&format!("  {method} {uri} {code}{what}"));
            answer
        });
        self.asked.notify_waiters();
        answer
    }
}

fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.contains("watch=true"))
}

/// A failure with this code. That a name is taken is never untrue; a quota may be changing (409).
fn fault(code: u16) -> Refusal {
    if code == 409 { conflict("a quota") } else { refused(code, "fault") }
}
