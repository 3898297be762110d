//! Labels and annotations of a Job for a queue (Kueue).

use super::violations::Violations;
use crate::cluster::{
    ELASTIC_ANNOTATION, EQUAL_ANNOTATION, LEAST_PODS_ANNOTATION, QUEUE_LABEL,
    QUEUED_SIZE_ANNOTATION,
};
use crate::crd::{MiniCluster, MiniClusterSpec};
use std::collections::BTreeMap;

/// Kueue's domain: keys of labels and annotations begin with it or with a subdomain.
const KUEUE: &str = "kueue.x-k8s.io";

/// The labels or annotations of a MiniCluster for Kueue, which are copied to the Job.
pub fn of_kueue(
    all: Option<&BTreeMap<String, String>>,
) -> impl Iterator<Item = (&String, &String)> {
    let is_kueues = |domain: &str| {
        domain.strip_suffix(KUEUE).is_some_and(|begin| begin.is_empty() || begin.ends_with('.'))
    };
    let key_is = move |key: &str| key.split_once('/').is_some_and(|(domain, _)| is_kueues(domain));
    all.into_iter().flatten().filter(move |(key, _)| key_is(key))
}

/// The labels of the Job: those of the specification, and the MiniCluster's labels for Kueue.
pub(super) fn job_labels(
    cluster: &MiniCluster,
    faults: &mut Violations,
) -> BTreeMap<String, String> {
    let mut labels = cluster.spec.job_labels.clone();
    labels.extend(copied(cluster.metadata.labels.as_ref()));
    faults.require(!cluster.spec.suspend || !labels.contains_key(QUEUE_LABEL), "spec.suspend", || {
        format!("excludes the label {QUEUE_LABEL}, as the queue decides when the MiniCluster runs: keep one; to hold a queued MiniCluster back, set spec.active: false of its Workload")
    });
    labels
}

/// The annotations of the Job: the MiniCluster's for Kueue, and those that let a queue start it with `minSize` pods.
pub(super) fn job_annotations(
    cluster: &MiniCluster,
    labels: &BTreeMap<String, String>,
    faults: &mut Violations,
) -> BTreeMap<String, String> {
    let mut annotations: BTreeMap<_, _> = copied(cluster.metadata.annotations.as_ref()).collect();
    if annotations.get(ELASTIC_ANNOTATION).is_some_and(|value| value == "true") {
        // KEP-77, "Limitations and Incompatibilities". Kueue 0.15 accepts both, and then refuses to change the size.
        let is_alone = !annotations.contains_key(LEAST_PODS_ANNOTATION);
        faults.require(is_alone, "metadata.annotations", || {
            format!("{ELASTIC_ANNOTATION} and {LEAST_PODS_ANNOTATION} exclude each other in Kueue: keep one")
        });
        return annotations;
    }
    let spec = &cluster.spec;
    let given = annotations.get(LEAST_PODS_ANNOTATION).cloned();
    // Kueue refuses a least number that equals the size.
    let least =
        spec.min_size.filter(|least| *least < spec.size && labels.contains_key(QUEUE_LABEL));
    if let Some(least) = given.or_else(|| least.map(|least| least.to_string())) {
        for (key, value) in [
            (LEAST_PODS_ANNOTATION, least),
            (EQUAL_ANNOTATION, "true".to_owned()),
            (QUEUED_SIZE_ANNOTATION, spec.size.to_string()),
        ] {
            annotations.entry(key.to_owned()).or_insert(value);
        }
    }
    annotations
}

/// Checks `spec.autoscale` of a MiniCluster in a queue, for a Job with these labels and annotations.
pub(super) fn autoscale(
    spec: &MiniClusterSpec,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
    faults: &mut Violations,
) {
    let Some(autoscale) = spec.autoscale.as_ref().filter(|_| labels.contains_key(QUEUE_LABEL))
    else {
        return;
    };
    let is_elastic = annotations.get(ELASTIC_ANNOTATION).is_some_and(|value| value == "true");
    faults.require(is_elastic, "spec.autoscale", || {
        format!("the queue of the label {QUEUE_LABEL} would stop all pods for another size: give the MiniCluster the annotation {ELASTIC_ANNOTATION}: \"true\", or leave out one of the two")
    });
    faults.require(autoscale.min_size > 0, "spec.autoscale.minSize", || {
        format!("0 excludes the label {QUEUE_LABEL}, as the queue decides when the MiniCluster runs: give at least 1")
    });
}

fn copied(all: Option<&BTreeMap<String, String>>) -> impl Iterator<Item = (String, String)> {
    of_kueue(all).map(|(key, value)| (key.clone(), value.clone()))
}
