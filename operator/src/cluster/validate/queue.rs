//! What a queue in front of the cluster reads from a MiniCluster (Kueue).

use super::faults::Faults;
use crate::cluster::QUEUE_LABEL;
use crate::crd::MiniCluster;
use std::collections::BTreeMap;

/// Labels that begin so are Kueue's.
const KUEUE: &str = "kueue.x-k8s.io/";

/// The labels of the Job: those that the specification gives, and the MiniCluster's own labels for Kueue, which
/// queues the Job.
pub(super) fn job_labels(cluster: &MiniCluster, faults: &mut Faults) -> BTreeMap<String, String> {
    let own = cluster.metadata.labels.iter().flatten();
    let of_kueue = own.filter(|(key, _)| key.starts_with(KUEUE));
    let mut labels = cluster.spec.job_labels.clone();
    labels.extend(of_kueue.map(|(key, value)| (key.clone(), value.clone())));
    faults.require(!cluster.spec.suspend || !labels.contains_key(QUEUE_LABEL), "spec.suspend", || {
        format!("excludes the label {QUEUE_LABEL}, as the queue decides when the MiniCluster runs: set spec.active of its Workload to false, or take the label away")
    });
    labels
}
