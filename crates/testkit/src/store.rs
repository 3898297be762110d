//! Objects by their paths, with their versions, and all changes in their order.

use super::clock::Clock;
use super::queue::is_queued;
use super::refusal::{Refusal, conflict, not_found, refused};
use super::rules::{COUNTED, admit, fill_in};
use json_patch::merge;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A pod that ran has ended with one of these.
const ENDED: [&str; 2] = ["Succeeded", "Failed"];

/// For how many seconds a pod may go on that is deleted while it runs. The kubelet waits for its end, and then
/// makes it 0.
const GRACE: &str = "deletionGracePeriodSeconds";

#[derive(Default)]
pub(crate) struct Store {
    /// Shared with the history: an object is never changed, another one takes its place.
    objects: BTreeMap<String, Arc<Value>>,
    /// What happened, oldest first.
    pub(crate) history: Vec<Event>,
    pub(crate) version: u64,
    pub(crate) clock: Clock,
    /// True while the operator is asking for something, and nobody else.
    pub(crate) by_operator: bool,
    /// True where a queue (Kueue) suspends each Job that is made for it, by its webhook.
    pub(crate) has_queue: bool,
    /// How many objects of each kind were made.
    made: BTreeMap<String, u32>,
    /// How many Services have got an address.
    addresses: u32,
}

pub(crate) struct Event {
    /// The version that this made.
    pub(crate) version: u64,
    pub(crate) path: String,
    /// What it was; nothing if it is new.
    pub(crate) before: Option<Arc<Value>>,
    /// What it is; nothing if it is gone.
    pub(crate) after: Option<Arc<Value>>,
    /// True when it was the operator that changed it.
    pub(crate) by_operator: bool,
}

impl Store {
    pub(crate) fn get(&self, path: &str) -> Option<&Value> {
        self.objects.get(path).map(|object| &**object)
    }

    /// All objects of the collection at `path`, each with its path; without a path all there are.
    pub(crate) fn inside(&self, path: &str) -> impl Iterator<Item = (&String, &Arc<Value>)> {
        let begin = if path.is_empty() { String::new() } else { format!("{path}/") };
        let range = self.objects.range(begin.clone()..);
        range.take_while(move |(path, _)| path.starts_with(&begin))
    }

    /// The objects of the collection at `path` that are asked for, as they are now, each with its path.
    pub(crate) fn select(
        &self,
        path: &str,
        which: impl Fn(&Value) -> bool,
    ) -> Vec<(String, Arc<Value>)> {
        let found = self.inside(path).filter(|(_, object)| which(object));
        found.map(|(path, object)| (path.clone(), Arc::clone(object))).collect()
    }

    pub(crate) fn all(&self) -> &BTreeMap<String, Arc<Value>> {
        &self.objects
    }

    /// Puts an object at `path`, whatever is there, with a new version and what a server fills in.
    pub(crate) fn put(&mut self, path: &str, mut object: Value) -> Arc<Value> {
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

    /// Takes the object at `path` away, if there is one.
    pub(crate) fn remove(&mut self, path: &str) -> Option<Arc<Value>> {
        let mut object = Value::clone(&*self.objects.remove(path)?);
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        self.note(path, Some(Arc::clone(&object)), None);
        Some(object)
    }

    pub(crate) fn create(&mut self, path: &str, body: &Value) -> Result<Arc<Value>, Refusal> {
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

    /// Merges `changes` into the object at `path`, but for its status.
    pub(crate) fn merge(&mut self, path: &str, changes: &Value) -> Result<Arc<Value>, Refusal> {
        self.update(path, changes, |object| {
            let status = object.get("status").cloned();
            merge(object, changes);
            set_status(object, status);
        })
    }

    /// Puts `body` in the place of the object at `path`, but for its status.
    pub(crate) fn replace(&mut self, path: &str, body: &Value) -> Result<Arc<Value>, Refusal> {
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

    /// Says how the object at `path` is, as whoever it is that runs it.
    pub(crate) fn set_status(&mut self, path: &str, status: Value) {
        self.change_status(path, |old| *old = status);
    }

    /// Changes what is said of how the object at `path` is, if it is there.
    pub(crate) fn change_status(&mut self, path: &str, change: impl FnOnce(&mut Value)) {
        let _ = self.update(path, &Value::Null, |object| change(&mut object["status"]));
    }

    /// Lets the object at `path` go without what was to be done before, if it is there.
    pub(crate) fn release(&mut self, path: &str) {
        let _ = self.merge(path, &json!({ "metadata": { "finalizers": null } }));
    }

    /// Deletes the object at `path`. One that something has to be done for before stays until then.
    pub(crate) fn delete(&mut self, path: &str, options: &Value) -> Result<Arc<Value>, Refusal> {
        let object = self.objects.get(path).cloned().ok_or_else(not_found)?;
        check(&object, &options["preconditions"])?;
        if !object["metadata"]["deletionTimestamp"].is_null() {
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

    /// Lets a pod go that was deleted: it has ended, and its node knows.
    pub(crate) fn confirm_end(&mut self, path: &str) {
        let waited_for =
            |pod: &&Arc<Value>| pod["metadata"][GRACE].as_u64().is_some_and(|it| it > 0);
        let Some(pod) = self.objects.get(path).filter(waited_for) else { return };
        let mut pod = Value::clone(pod);
        pod["metadata"][GRACE] = json!(0);
        if holds(&pod) { drop(self.put(path, pod)) } else { drop(self.remove(path)) }
    }

    /// Changes what is at `path`, unless `conditions` name another object or another version of it. What
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
        if new["metadata"]["deletionTimestamp"].is_null() || holds(&new) {
            return Ok(self.put(path, new));
        }
        self.remove(path);
        Ok(Arc::new(new))
    }

    /// A name for an object that nothing else has had.
    fn uid(&mut self, object: &Value) -> String {
        let kind = object["kind"].as_str().unwrap_or("object").to_lowercase();
        let number = self.made.entry(kind.clone()).or_default();
        *number += 1;
        if *number == 1 { format!("{kind}-uid") } else { format!("{kind}-uid-{number}") }
    }

    fn note(&mut self, path: &str, before: Option<Arc<Value>>, after: Option<Arc<Value>>) {
        let (version, path, by_operator) = (self.version, path.to_owned(), self.by_operator);
        self.history.push(Event { version, path, before, after, by_operator });
    }
}

/// Whether `object` has the uid and the version that are asked for, if any are.
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

/// True while something has to be done before `object` can go: somebody has asked to be waited for, or a
/// pod's node has not said yet that it has ended.
fn holds(object: &Value) -> bool {
    let grace = object["metadata"][GRACE].as_u64().unwrap_or_default();
    grace > 0 || !finalizers(object).is_empty()
}

/// True for a pod that has a node, and has not ended.
fn runs(object: &Value) -> bool {
    object["kind"] == "Pod"
        && !object["spec"]["nodeName"].is_null()
        && !ENDED.iter().any(|phase| object["status"]["phase"] == *phase)
}
