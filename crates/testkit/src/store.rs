//! Objects by their paths, with their versions, and all changes in their order.

use super::clock::Clock;
use super::objects::{is_going, is_over, is_queued};
use super::refusal::{Refusal, conflict, not_found, refused};
use super::rules::{COUNTED, admit, fill_in};
use json_patch::merge;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// For how many seconds a pod may go on that is deleted while it runs. The kubelet makes it 0 when the pod has ended.
const GRACE: &str = "deletionGracePeriodSeconds";

#[derive(Default)]
pub struct Store {
    /// Shared with the history: an object is never changed, another one takes its place.
    objects: BTreeMap<String, Arc<Value>>,
    /// All changes, oldest first.
    pub history: Vec<Event>,
    /// The version of the last change.
    pub version: u64,
    pub clock: Clock,
    /// True while the server handles the request of a client.
    pub(crate) by_client: bool,
    /// True where the webhook of a queue (Kueue) suspends each new Job that names it.
    pub has_queue: bool,
    /// How many objects of each kind were created.
    created: BTreeMap<String, u32>,
    /// How many Services have got an address.
    addresses: u32,
}

#[derive(Debug, Clone)]
pub struct Event {
    /// The version after it.
    pub version: u64,
    pub path: String,
    /// The object before; absent if it is new.
    pub before: Option<Arc<Value>>,
    /// The object after; absent if it is gone.
    pub after: Option<Arc<Value>>,
    /// True where a client of the server made it, and not the simulation or the test.
    pub by_client: bool,
}

impl Store {
    pub fn get(&self, path: &str) -> Option<&Value> {
        self.objects.get(path).map(|object| &**object)
    }

    /// All objects of the collection at `path`, each with its path; of all collections where `path` is empty.
    pub fn inside(&self, path: &str) -> impl Iterator<Item = (&String, &Arc<Value>)> {
        let begin = if path.is_empty() { String::new() } else { format!("{path}/") };
        let range = self.objects.range(begin.clone()..);
        range.take_while(move |(path, _)| path.starts_with(&begin))
    }

    /// The objects of the collection at `path` for which `which` is true, as they are now, each with its path; those of
    /// all collections where `path` is empty.
    pub fn select(&self, path: &str, which: impl Fn(&Value) -> bool) -> Vec<(String, Arc<Value>)> {
        let found = self.inside(path).filter(|(_, object)| which(object));
        found.map(|(path, object)| (path.clone(), Arc::clone(object))).collect()
    }

    pub fn all(&self) -> &BTreeMap<String, Arc<Value>> {
        &self.objects
    }

    /// Puts an object at `path`, in place of the one there, with a new version and the fields that a server fills in.
    pub fn put(&mut self, path: &str, mut object: Value) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(self.uid(&object));
        }
        let addresses = &mut self.addresses;
        fill_in(&mut object, || {
            let number = 7 + *addresses;
            *addresses += 1;
            format!("10.96.{}.{}", number / 256, number % 256)
        });
        let object = Arc::new(object);
        let before = self.objects.insert(path.to_owned(), Arc::clone(&object));
        self.note(path, before, Some(Arc::clone(&object)));
        object
    }

    /// Removes the object at `path`, if there is one, at once.
    pub fn remove(&mut self, path: &str) -> Option<Arc<Value>> {
        let mut object = Value::clone(&*self.objects.remove(path)?);
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        self.note(path, Some(Arc::clone(&object)), None);
        Some(object)
    }

    /// Creates the object `body` in the collection at `path`.
    pub fn create(&mut self, path: &str, body: &Value) -> Result<Arc<Value>, Refusal> {
        let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap_or_default());
        if self.objects.contains_key(&path) {
            return Err(refused(409, "already exists"));
        }
        let mut object = body.clone();
        object["metadata"]["creationTimestamp"] = json!(self.clock.now().to_string());
        if COUNTED.iter().any(|kind| object["kind"] == *kind) {
            object["metadata"]["generation"] = json!(1);
        }
        if self.has_queue && is_queued(&object) {
            object["spec"]["suspend"] = json!(true);
        }
        Ok(self.put(&path, object))
    }

    /// Merges `changes` into the object at `path`, except for its status.
    pub fn merge(&mut self, path: &str, changes: &Value) -> Result<Arc<Value>, Refusal> {
        self.update(path, changes, |object| {
            let status = object.get("status").cloned();
            merge(object, changes);
            set_status(object, status);
        })
    }

    /// Puts `body` in the place of the object at `path`, except for its status.
    pub fn replace(&mut self, path: &str, body: &Value) -> Result<Arc<Value>, Refusal> {
        self.update(path, body, |object| {
            let status = object.get("status").cloned();
            *object = body.clone();
            set_status(object, status);
        })
    }

    /// Merges the status in `changes` into the object at `path`, and nothing else of them.
    pub(crate) fn merge_status(
        &mut self,
        path: &str,
        changes: &Value,
    ) -> Result<Arc<Value>, Refusal> {
        self.update(path, changes, |object| merge(&mut object["status"], &changes["status"]))
    }

    /// Writes the status of the object at `path`, as its controller does.
    pub fn set_status(&mut self, path: &str, status: Value) {
        self.change_status(path, |old| *old = status);
    }

    /// Changes the status of the object at `path`, if there is one.
    pub fn change_status(&mut self, path: &str, change: impl FnOnce(&mut Value)) {
        let _ = self.update(path, &Value::Null, |object| change(&mut object["status"]));
    }

    /// Removes all finalizers of the object at `path`, if there is one.
    pub(crate) fn release(&mut self, path: &str) {
        let _ = self.merge(path, &json!({ "metadata": { "finalizers": null } }));
    }

    /// Deletes the object at `path`. It stays as long as it has finalizers, or a pod runs.
    pub fn delete(&mut self, path: &str, options: &Value) -> Result<Arc<Value>, Refusal> {
        let object = self.objects.get(path).cloned().ok_or_else(not_found)?;
        check(&object, &options["preconditions"])?;
        if is_going(&object) {
            return Ok(object);
        }
        let mut going = Value::clone(&object);
        going["metadata"]["deletionTimestamp"] = json!(self.clock.now().to_string());
        if runs(&going) {
            going["metadata"][GRACE] = json!(30);
        }
        if options["propagationPolicy"] == "Foreground" {
            let mut finalizers = finalizers(&going);
            finalizers.push(json!("foregroundDeletion"));
            going["metadata"]["finalizers"] = Value::Array(finalizers);
        }
        if holds(&going) {
            return Ok(self.put(path, going));
        }
        Ok(self.remove(path).unwrap_or_default())
    }

    /// Removes the deleted pod at `path`, of which its node knows that it has ended.
    pub(crate) fn confirm_end(&mut self, path: &str) {
        let waited_for =
            |pod: &&Arc<Value>| pod["metadata"][GRACE].as_u64().is_some_and(|it| it > 0);
        let Some(pod) = self.objects.get(path).filter(waited_for) else { return };
        let mut pod = Value::clone(pod);
        pod["metadata"][GRACE] = json!(0);
        if holds(&pod) { drop(self.put(path, pod)) } else { drop(self.remove(path)) }
    }

    /// Changes the object at `path`, unless `conditions` name another object or another version of it. A write that
    /// changes nothing makes no new version.
    fn update(
        &mut self,
        path: &str,
        conditions: &Value,
        change: impl FnOnce(&mut Value),
    ) -> Result<Arc<Value>, Refusal> {
        let old = self.objects.get(path).ok_or_else(not_found)?;
        check(old, &conditions["metadata"])?;
        let mut new = Value::clone(old);
        change(&mut new);
        admit(old, &mut new)?;
        if **old == new {
            return Ok(Arc::clone(old));
        }
        if !is_going(&new) || holds(&new) {
            return Ok(self.put(path, new));
        }
        self.remove(path);
        Ok(Arc::new(new))
    }

    /// A uid that no other object has had.
    fn uid(&mut self, object: &Value) -> String {
        let kind = object["kind"].as_str().unwrap_or("object").to_lowercase();
        let number = self.created.entry(kind.clone()).or_default();
        *number += 1;
        if *number == 1 { format!("{kind}-uid") } else { format!("{kind}-uid-{number}") }
    }

    fn note(&mut self, path: &str, before: Option<Arc<Value>>, after: Option<Arc<Value>>) {
        let (version, path, by_client) = (self.version, path.to_owned(), self.by_client);
        self.history.push(Event { version, path, before, after, by_client });
    }
}

/// Refuses a write whose `conditions` name another uid or version than that of `object`.
fn check(object: &Value, conditions: &Value) -> Result<(), Refusal> {
    let other = |field: &&str| {
        !conditions[*field].is_null() && conditions[*field] != object["metadata"][*field]
    };
    let other = ["uid", "resourceVersion"].into_iter().find(other);
    other.map_or(Ok(()), |field| Err(conflict(field)))
}

fn set_status(object: &mut Value, status: Option<Value>) {
    match status {
        Some(status) => object["status"] = status,
        None => drop(object.as_object_mut().map(|object| object.remove("status"))),
    }
}

fn finalizers(object: &Value) -> Vec<Value> {
    object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default()
}

/// True while a deleted object stays: it has finalizers, or it is a pod that has not ended.
fn holds(object: &Value) -> bool {
    let grace = object["metadata"][GRACE].as_u64().unwrap_or_default();
    grace > 0 || !finalizers(object).is_empty()
}

/// True for a pod that has a node, and has not ended.
fn runs(object: &Value) -> bool {
    object["kind"] == "Pod" && !object["spec"]["nodeName"].is_null() && !is_over(object)
}
