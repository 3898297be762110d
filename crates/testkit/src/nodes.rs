//! Nodes: pods are placed there, and a node that is heard of no more keeps its pods until it is back or given up.
//!
//! After the node lifecycle controller, the taint manager and the pod garbage collector of Kubernetes 1.37.

use super::kubelet::{Kubelet, disrupt};
use super::store::Store;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const NODES: usize = 3;

/// After so many seconds without a word the pods of a node are not ready.
const SILENCE: u64 = 40;
/// So many seconds later they are deleted: the toleration that each pod gets.
const TOLERATED: u64 = 300;

/// The nodes that are heard of no more, and since when.
#[derive(Default)]
pub(crate) struct Nodes(BTreeMap<String, Timestamp>);

fn name(number: usize) -> String {
    format!("node-{number}")
}

impl Nodes {
    /// A node for the pod with this index, if one is there.
    pub(crate) fn place(&self, index: usize) -> Option<String> {
        let all = (index..index + NODES).map(|number| name(number % NODES));
        all.into_iter().find(|name| !self.0.contains_key(name))
    }

    /// True when nothing is heard of the node of `pod`.
    pub(crate) fn are_lost_to(&self, pod: &Value) -> bool {
        pod["spec"]["nodeName"].as_str().is_some_and(|name| self.0.contains_key(name))
    }

    pub(crate) fn is_any_lost(&self) -> bool {
        !self.0.is_empty()
    }

    /// Nothing is heard any more of the node with this number.
    pub(crate) fn lose(&mut self, number: usize, store: &Store) {
        self.0.entry(name(number)).or_insert_with(|| store.clock.now());
    }

    /// The node with this number is heard of. True when it was lost.
    pub(crate) fn find(&mut self, number: usize) -> bool {
        self.0.remove(&name(number)).is_some()
    }

    pub(crate) fn find_all(&mut self) {
        self.0.clear();
    }

    /// What is done about the pod at `path`, whose node is lost.
    pub(crate) fn look_after(&self, store: &mut Store, path: &str, pod: &Value) {
        let since = pod["spec"]["nodeName"].as_str().and_then(|name| self.0.get(name));
        let Some(since) = since else { return };
        let seconds = store.clock.now().duration_since(*since).unsigned_abs().as_secs();
        if seconds >= SILENCE {
            Kubelet::set_unready(store, path);
        }
        if seconds >= SILENCE + TOLERATED && pod["metadata"]["deletionTimestamp"].is_null() {
            disrupt(store, path, "DeletionByTaintManager");
            let _ = store.delete(path, &Value::Null);
        }
    }

    /// Fails the pods of a lost node that does not come back, and lets them go.
    pub(crate) fn give_up(&self, number: usize, store: &mut Store, pods: &str) {
        if !self.0.contains_key(&name(number)) {
            return;
        }
        for (path, _) in pods_on(number, store, pods) {
            let _ = store.delete(&path, &Value::Null);
            disrupt(store, &path, "DeletionByPodGC");
            store.change_status(&path, |status| status["phase"] = json!("Failed"));
            store.confirm_end(&path);
        }
    }
}

/// The pods of the node with this number that have not ended.
pub(crate) fn pods_on(number: usize, store: &Store, pods: &str) -> Vec<(String, Arc<Value>)> {
    let name = name(number);
    store.select(pods, |pod| pod["spec"]["nodeName"] == *name && !super::job::is_over(pod))
}
