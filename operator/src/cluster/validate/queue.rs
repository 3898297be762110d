//! What a queue in front of the cluster reads from a MiniCluster (Kueue).

use super::faults::Faults;
use crate::cluster::QUEUE_LABEL;
use crate::crd::MiniCluster;
use std::collections::BTreeMap;

/// Kueue's domain: keys of labels and annotations begin with it, or with one below it.
const KUEUE: &str = "kueue.x-k8s.io";

/// Of the labels or annotations of a MiniCluster those that are Kueue's: they go to the Job, which it queues.
pub(crate) fn of_kueue(
    all: Option<&BTreeMap<String, String>>,
) -> impl Iterator<Item = (&String, &String)> {
    let is_kueues = |domain: &str| {
        domain.strip_suffix(KUEUE).is_some_and(|begin| begin.is_empty() || begin.ends_with('.'))
    };
    let key_is = move |key: &str| key.split_once('/').is_some_and(|(domain, _)| is_kueues(domain));
    all.into_iter().flatten().filter(move |(key, _)| key_is(key))
}

/// The labels of the Job: those that the specification gives, and the MiniCluster's own labels for Kueue.
pub(super) fn job_labels(cluster: &MiniCluster, faults: &mut Faults) -> BTreeMap<String, String> {
    let mut labels = cluster.spec.job_labels.clone();
    labels.extend(copied(cluster.metadata.labels.as_ref()));
    faults.require(!cluster.spec.suspend || !labels.contains_key(QUEUE_LABEL), "spec.suspend", || {
        format!("excludes the label {QUEUE_LABEL}, as the queue decides when the MiniCluster runs: keep one; what is in a queue is held back by spec.active: false of its Workload")
    });
    labels
}

/// The annotations of the Job.
pub(super) fn job_annotations(cluster: &MiniCluster) -> BTreeMap<String, String> {
    copied(cluster.metadata.annotations.as_ref()).collect()
}

fn copied(all: Option<&BTreeMap<String, String>>) -> impl Iterator<Item = (String, String)> {
    of_kueue(all).map(|(key, value)| (key.clone(), value.clone()))
}
