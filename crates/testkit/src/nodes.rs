//! Nodes: they have the pods, and a node that does not answer keeps its pods until it is back or given up.
//!
//! After the node lifecycle controller, the taint manager and the pod garbage collector of Kubernetes 1.37.

use super::objects::{is_going, is_over};
use super::pod_status::{disrupt, set_unready};
use super::store::Store;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const NODES: usize = 3;

/// For so many seconds a node may fail to answer before its pods are not ready.
const SILENCE: u64 = 40;
/// So many seconds later its pods are deleted: the toleration that each pod gets.
const TOLERATED: u64 = 300;

/// The nodes that do not answer, and since when.
#[derive(Default)]
pub struct Nodes(BTreeMap<String, Timestamp>);

fn name(number: usize) -> String {
    format!("node-{number}")
}

impl Nodes {
    /// A node for the pod with this index, if one answers.
    pub(crate) fn place(&self, index: usize) -> Option<String> {
        let all = (index..index + NODES).map(|number| name(number % NODES));
        all.into_iter().find(|name| !self.0.contains_key(name))
    }

    /// True when the node of `pod` does not answer.
    pub fn are_lost_to(&self, pod: &Value) -> bool {
        pod["spec"]["nodeName"].as_str().is_some_and(|name| self.0.contains_key(name))
    }

    pub fn is_any_lost(&self) -> bool {
        !self.0.is_empty()
    }

    /// From now on the node with this number does not answer.
    pub fn lose(&mut self, number: usize, store: &Store) {
        self.0.entry(name(number)).or_insert_with(|| store.clock.now());
    }

    /// From now on the node with this number answers. True when it did not.
    pub fn find(&mut self, number: usize) -> bool {
        self.0.remove(&name(number)).is_some()
    }

    /// From now on all nodes answer.
    pub fn find_all(&mut self) {
        self.0.clear();
    }

    /// Marks and deletes the pod at `path`, whose node does not answer, once it is time.
    pub(crate) fn look_after(&self, store: &mut Store, path: &str, pod: &Value) {
        let since = pod["spec"]["nodeName"].as_str().and_then(|name| self.0.get(name));
        let Some(since) = since else { return };
        let seconds = store.clock.now().duration_since(*since).unsigned_abs().as_secs();
        if seconds >= SILENCE {
            set_unready(store, path);
        }
        if seconds >= SILENCE + TOLERATED && !is_going(pod) {
            disrupt(store, path, "DeletionByTaintManager");
            let _ = store.delete(path, &Value::Null);
        }
    }

    /// Fails and removes the pods of a lost node that does not come back.
    pub fn give_up(&self, number: usize, store: &mut Store) {
        if !self.0.contains_key(&name(number)) {
            return;
        }
        for (path, _) in pods_on(number, store) {
            let _ = store.delete(&path, &Value::Null);
            disrupt(store, &path, "DeletionByPodGC");
            store.change_status(&path, |status| status["phase"] = json!("Failed"));
            store.confirm_end(&path);
        }
    }
}

/// The pods of the node with this number that have not ended.
pub fn pods_on(number: usize, store: &Store) -> Vec<(String, Arc<Value>)> {
    let name = name(number);
    store.select("", |object| object["spec"]["nodeName"] == *name && !is_over(object))
}
