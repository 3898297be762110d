//! What an API server does with a request: who may ask, what is read, listed, watched and written.

use super::faults::Faults;
use super::refusal::{Refusal, not_found, refused};
use super::selectors::{Selection, Words, words};
use super::store::Store;
use super::watch::Watch;
use crate::support::rights::{self, Permission};
use axum::body::Body as Answer;
use http::{Method, Response};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::core::{ObjectList, TypeMeta};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) store: Store,
    pub(crate) faults: Faults,
    pub(crate) log: Vec<String>,
    pub(crate) bodies: Vec<Value>,
    /// Each request with its answer, and what the test has noted between them.
    pub(crate) journal: Vec<String>,
    /// What the operator wanted to write and may not, or that nobody may.
    pub(crate) mistakes: Vec<String>,
    pub(crate) watches: Vec<Watch>,
    pub(crate) news: News,
    pub(crate) release: Option<String>,
    pub(crate) nodes: Option<Vec<Value>>,
}

/// What watches bring after they have begun.
#[derive(Default)]
pub(crate) enum News {
    #[default]
    None,
    /// All but what happens to these kinds, in the plural.
    AllBut(Vec<&'static str>),
}

/// What a request asks for, its method aside.
pub(crate) struct Asked<'request> {
    pub(crate) path: &'request str,
    pub(crate) query: &'request str,
    /// False where only metadata is asked for.
    pub(crate) whole: bool,
    pub(crate) body: Value,
}

impl Memory {
    pub(crate) fn note(&mut self, text: &str) {
        self.journal.push(format!("{} {text}", self.store.clock.now()));
    }

    pub(crate) fn answer(&mut self, method: &Method, asked: &Asked<'_>) -> Response<Answer> {
        let Asked { path, query, .. } = *asked;
        self.log.push(format!("{method} {path}"));
        if let Some(answer) = self.of_no_namespace(path, query) {
            return answer;
        }
        let Some(permission) = rights::granted(method, path, query) else {
            if method != Method::GET {
                self.mistakes.push(format!("{method} {path}: not allowed"));
            }
            return refuse(&refused(403, "the operator's role does not allow it"));
        };
        if method == Method::GET {
            return self.read(asked, &permission);
        }
        self.bodies.push(asked.body.clone());
        let name = asked.body["metadata"]["name"].as_str().unwrap_or_default();
        let refusals = &self.faults.refusals;
        if let Some(refusal) =
            refusals.get(path).or_else(|| refusals.get(&format!("{path}/{name}")))
        {
            return refuse(refusal);
        }
        self.store.by_operator = true;
        let written = self.write(method, asked);
        self.store.by_operator = false;
        match written {
            Ok((code, object)) => respond(code, &*object),
            Err(refusal) => {
                if refusal.code == 422 {
                    self.mistakes.push(format!("{method} {path}: {}", refusal.message));
                }
                refuse(&refusal)
            }
        }
    }

    fn write(&mut self, method: &Method, asked: &Asked<'_>) -> Result<(u16, Arc<Value>), Refusal> {
        let Asked { path, body, .. } = asked;
        let store = &mut self.store;
        Ok((
            200,
            match *method {
                Method::POST => return store.create(path, body).map(|object| (201, object)),
                Method::PUT => store.replace(path, body)?,
                Method::DELETE => store.delete(path, body)?,
                Method::PATCH => match path.strip_suffix("/status") {
                    Some(object) => store.merge_status(object, body)?,
                    None => store.merge(path, body)?,
                },
                _ => return Err(refused(405, "not here")),
            },
        ))
    }

    /// An object, a list or a watch; without `whole` only the metadata of what is listed.
    fn read(&mut self, asked: &Asked<'_>, permission: &Permission<'_>) -> Response<Answer> {
        let Asked { path, whole, .. } = *asked;
        let query = words(asked.query);
        let answer = match permission.verb {
            "watch" => {
                let (watch, lines) = Watch::new(path, &query, whole);
                self.watches.push(watch);
                return Response::new(Answer::from_stream(lines));
            }
            "list" => {
                let is_paged = query.contains_key("limit");
                assert!(permission.resource != "pods" || is_paged, "all pods are listed at once");
                self.list(path, &query, whole)
            }
            _ => match self.store.get(path) {
                Some(object) => respond(200, object),
                None => refuse(&not_found()),
            },
        };
        for (path, object) in self.faults.intrusions(path) {
            self.store.put(&path, object);
        }
        answer
    }

    fn list(&self, path: &str, query: &Words, whole: bool) -> Response<Answer> {
        let selection = Selection::of(query);
        let all = self.store.inside(path).map(|(_, object)| &**object);
        let items: Vec<&Value> = all.filter(|object| selection.has(object)).collect();
        page(self.store.version, &items, query, whole)
    }

    /// Sends the watches what has happened.
    pub(crate) fn notify_watches(&mut self) {
        let News::AllBut(held) = &self.news else { return };
        let store = &self.store;
        self.watches
            .retain_mut(|watch| held.iter().any(|plural| watch.is_of(plural)) || watch.send(store));
    }

    /// What lies in no namespace: an operator for one namespace may not read it, so it is there only
    /// where a test says so.
    fn of_no_namespace(&self, path: &str, query: &str) -> Option<Response<Answer>> {
        match path {
            "/version" => {
                let git_version = self.release.clone()?;
                Some(respond(200, &Info { git_version, ..Info::default() }))
            }
            "/api/v1/nodes" => {
                let nodes: Vec<&Value> = self.nodes.as_ref()?.iter().collect();
                let query = words(query);
                assert!(query.contains_key("limit"), "all nodes are listed at once");
                Some(page(self.store.version, &nodes, &query, true))
            }
            // What kinds there are, everybody may ask.
            _ if path.starts_with("/apis") && path.split('/').count() <= 4 => {
                let none = json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [] });
                Some(respond(200, self.store.get(path).unwrap_or(&none)))
            }
            _ => None,
        }
    }
}

/// As many of `items` as are asked for, from where the page before has ended; their metadata, if not `whole`.
fn page(version: u64, items: &[&Value], query: &Words, whole: bool) -> Response<Answer> {
    let number = |name: &str| query.get(name).and_then(|text| text.parse::<usize>().ok());
    let from = number("continue").unwrap_or(0).min(items.len());
    let to = number("limit").map_or(items.len(), |limit| items.len().min(from + limit));
    let metadata = ListMeta {
        resource_version: Some(version.to_string()),
        continue_: (to < items.len()).then(|| to.to_string()),
        ..ListMeta::default()
    };
    let types = TypeMeta { api_version: "v1".to_owned(), kind: "List".to_owned() };
    let metadata_of = |item: &&Value| json!({ "metadata": item["metadata"] });
    let items = &items[from..to];
    if whole {
        respond(200, &ObjectList { types, metadata, items: items.to_vec() })
    } else {
        let items = items.iter().map(metadata_of).collect();
        respond(200, &ObjectList::<Value> { types, metadata, items })
    }
}

pub(crate) fn refuse(refusal: &Refusal) -> Response<Answer> {
    respond(refusal.code, refusal)
}

fn respond(code: u16, body: &impl Serialize) -> Response<Answer> {
    let body = Answer::from(serde_json::to_vec(body).unwrap());
    Response::builder().status(code).body(body).unwrap()
}
