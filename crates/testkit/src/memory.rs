//! How the server answers a request: permissions, reads, lists, watches and writes.

use super::access::{Access, Permission};
use super::faults::Faults;
use super::refusal::{Refusal, not_found, refused};
use super::reviews::{Holder, reviewed};
use super::selectors::{Selection, Words, words};
use super::store::Store;
use super::watch::Watch;
use axum::body::Body as Answer;
use http::{Method, Response};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::core::{ObjectList, TypeMeta};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// All that the server keeps.
#[derive(Default)]
pub struct Memory {
    pub store: Store,
    pub faults: Faults,
    /// Writes that the role of the client does not allow, or that change fixed fields.
    pub mistakes: Vec<String>,
    /// The tokens that the server knows.
    pub tokens: Vec<Holder>,
    pub(crate) access: Access,
    /// Each request as `METHOD path`, since the test took its writes.
    pub(crate) log: Vec<String>,
    pub(crate) bodies: Vec<Value>,
    /// Each request with its answer, and the test's notes between them.
    pub(crate) journal: Vec<String>,
    pub(crate) watches: Vec<Watch>,
    /// Watches deliver all changes except those of objects of these kinds, in the plural; without a list, none.
    pub(crate) held: Option<Vec<&'static str>>,
    pub(crate) release: Option<String>,
    pub(crate) nodes: Option<Vec<Value>>,
}

/// A request without its method.
pub(crate) struct Call<'request> {
    pub(crate) path: &'request str,
    pub(crate) query: &'request str,
    /// False where the client wants metadata only.
    pub(crate) whole: bool,
    pub(crate) body: Value,
}

impl Memory {
    pub(crate) fn note(&mut self, text: &str) {
        self.journal.push(format!("{} {text}", self.store.clock.now()));
    }

    pub(crate) fn answer(&mut self, method: &Method, call: &Call<'_>) -> Response<Answer> {
        let Call { path, query, .. } = *call;
        self.log.push(format!("{method} {path}"));
        if let Some(answer) = self.outside_namespaces(path, query) {
            return answer;
        }
        let permission = Permission::new(method, path, query).filter(|it| self.access.allows(it));
        let Some(permission) = permission else {
            if method != Method::GET {
                self.mistakes.push(format!("{method} {path}: not allowed"));
            }
            return refuse(&refused(403, "the role of the client does not allow it"));
        };
        if method == Method::GET {
            return self.read(call, &permission);
        }
        self.bodies.push(call.body.clone());
        let name = call.body["metadata"]["name"].as_str().unwrap_or_default();
        let refusals = &self.faults.refusals;
        if let Some(refusal) =
            refusals.get(path).or_else(|| refusals.get(&format!("{path}/{name}")))
        {
            return refuse(refusal);
        }
        self.store.by_client = true;
        let written = self.write(method, call);
        self.store.by_client = false;
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

    fn write(&mut self, method: &Method, call: &Call<'_>) -> Result<(u16, Arc<Value>), Refusal> {
        let Call { path, body, .. } = call;
        if let Some(reviewed) = reviewed(&self.tokens, path, body) {
            return Ok((201, Arc::new(reviewed)));
        }
        let store = &mut self.store;
        Ok((
            200,
            match *method {
                Method::POST => return store.create(path, body).map(|object| (201, object)),
                Method::PUT => store.replace(path, body)?,
                Method::DELETE if !body["dryRun"].is_null() => {
                    Arc::new(store.get(path).ok_or_else(not_found)?.clone())
                }
                Method::DELETE => store.delete(path, body)?,
                Method::PATCH => match path.rsplit_once('/') {
                    Some((object, "status")) => store.merge_status(object, body)?,
                    Some((object, "scale")) => {
                        store.merge(
                            object,
                            &json!({ "spec": { "size": body["spec"]["replicas"] } }),
                        )?;
                        Arc::new(json!({ "metadata": {}, "spec": body["spec"] }))
                    }
                    _ => store.merge(path, body)?,
                },
                _ => return Err(refused(405, "not here")),
            },
        ))
    }

    /// Answers with an object, a list or a watch.
    fn read(&mut self, call: &Call<'_>, permission: &Permission<'_>) -> Response<Answer> {
        let Call { path, whole, .. } = *call;
        let query = words(call.query);
        let answer = match permission.verb {
            "watch" => {
                let (watch, lines) = Watch::new(path, &query, whole, &self.store);
                self.watches.push(watch);
                Response::new(Answer::from_stream(lines))
            }
            "list" => {
                self.access.require_limit(&permission.resource, &query);
                self.list(path, &query, whole)
            }
            _ => match self.store.get(path) {
                Some(object) => respond(200, object),
                None => refuse(&not_found()),
            },
        };
        for (path, object) in self.faults.take_intruders(path) {
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

    /// Sends the watches the changes since the last time.
    pub(crate) fn notify_watches(&mut self) {
        let Some(held) = &self.held else { return };
        let store = &self.store;
        self.watches
            .retain_mut(|watch| held.iter().any(|plural| watch.is_of(plural)) || watch.send(store));
    }

    /// Answers for what lies in no namespace and no role here allows: the release and the nodes, where the test has
    /// given them, and the kinds, which everybody may read.
    fn outside_namespaces(&self, path: &str, query: &str) -> Option<Response<Answer>> {
        match path {
            "/version" => {
                let git_version = self.release.clone()?;
                Some(respond(200, &Info { git_version, ..Info::default() }))
            }
            "/api/v1/nodes" => {
                let nodes: Vec<&Value> = self.nodes.as_ref()?.iter().collect();
                let query = words(query);
                self.access.require_limit("nodes", &query);
                Some(page(self.store.version, &nodes, &query, true))
            }
            _ if path.starts_with("/apis") && path.split('/').count() <= 4 => {
                let none = json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [] });
                Some(respond(200, self.store.get(path).unwrap_or(&none)))
            }
            _ => None,
        }
    }
}

/// As many of `items` as the query has for a limit, from the end of the page before; only metadata if not `whole`.
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
