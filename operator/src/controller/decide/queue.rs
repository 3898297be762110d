//! Limits a Job in a queue (Kueue) to what the queue has admitted, and finds whether it waits there.

use crate::controller::job_ext::{is_suspended, noted_keys, parallelism};
use flux_api::cluster::{
    Cluster, ELASTIC_ANNOTATION, EQUAL_ANNOTATION, LEAST_PODS_ANNOTATION, QUEUE_LABEL,
    QUEUED_SIZE_ANNOTATION, TOPOLOGY_ANNOTATIONS,
};
use flux_api::objects::{JOB_ANNOTATIONS_ANNOTATION, JOB_LABELS_ANNOTATION};
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;
use std::collections::{BTreeMap, BTreeSet};

/// Annotation of a Job that Kueue is stopping: its number of pods is not yet the requested one (`Stop` in
/// `pkg/controller/jobs/job/job_controller.go` of Kueue 0.15).
const STOPPING_ANNOTATION: &str = "kueue.x-k8s.io/stopping";

/// For a message: how many pods the queue has admitted, if it are fewer than requested.
pub(crate) fn admitted_in_part(job: &Job) -> Option<String> {
    let queue = job.labels().get(QUEUE_LABEL).filter(|_| !is_suspended(job))?;
    let (size, asked) = (parallelism(job), queued_size(job)?);
    (size < asked).then(|| format!("the queue {queue} has admitted {size} of {asked} pods"))
}

/// True when the queue may start `job` with fewer pods than the specification asks for.
pub(crate) fn decides_size(job: &Job) -> bool {
    job.annotations().contains_key(LEAST_PODS_ANNOTATION)
}

/// Replaces values of `cluster` by those that `job` keeps in its queue; returns the changes that it refuses.
pub(crate) fn limit_to_queue(job: Option<&Job>, cluster: &mut Cluster) -> Vec<String> {
    // Before the queue has decided the number of pods, the agents wait for all brokers, so that no command begins
    // with too few. They learn of a smaller number later.
    if job.is_none_or(is_held) && cluster.job_annotations.contains_key(LEAST_PODS_ANNOTATION) {
        cluster.min_size = None;
    }
    let Some(job) = job else { return Vec::new() };
    let mut refused = Vec::from_iter(keep_queue(job, cluster));
    refused.extend(keep_annotations(job, cluster));
    refused.extend(keep_admitted_size(job, cluster));
    refused
}

/// Kueue refuses to move a running Job to another queue. A Job that leaves its queue would keep its quota, because
/// `ReconcileGenericJob` then ignores it.
fn keep_queue(job: &Job, cluster: &mut Cluster) -> Option<String> {
    let (has, wants) = (job.labels().get(QUEUE_LABEL), cluster.job_labels.get(QUEUE_LABEL));
    let is_given = noted_keys(job, JOB_LABELS_ANNOTATION).any(|key| key == QUEUE_LABEL);
    let may_be = match (has, wants) {
        (Some(has), Some(wants)) => has == wants || is_suspended(job),
        // Kueue gives a Job the namespace's default queue.
        (has, wants) => wants.is_none() && (has.is_none() || !is_given),
    };
    if may_be {
        return None;
    }
    replace(&mut cluster.job_labels, QUEUE_LABEL, has);
    Some(format!("the label {QUEUE_LABEL}"))
}

/// Keeps the annotations that Kueue reads only once. Its webhook decides at the creation of a Job whether it is
/// elastic. The topology goes into the Workload, which Kueue does not update (`ComparePodSets` of Kueue 0.15 to 0.19),
/// and into the template, which cannot change. For another least number of pods Kueue would stop a running Job.
fn keep_annotations(job: &Job, cluster: &mut Cluster) -> Vec<String> {
    let noted = noted_keys(job, JOB_ANNOTATIONS_ANNOTATION).map(str::to_owned);
    let asked = cluster.job_annotations.keys().cloned();
    let topology: BTreeSet<String> =
        noted.chain(asked).filter(|key| key.starts_with(TOPOLOGY_ANNOTATIONS)).collect();
    let mut refused = Vec::new();
    for key in topology.iter().map(String::as_str).chain([ELASTIC_ANNOTATION]) {
        let has = job.annotations().get(key);
        if cluster.job_annotations.get(key) != has {
            refused.push(format!("the annotation {key}"));
            replace(&mut cluster.job_annotations, key, has);
        }
    }
    if !is_held(job) {
        for key in [LEAST_PODS_ANNOTATION, EQUAL_ANNOTATION, QUEUED_SIZE_ANNOTATION] {
            replace(&mut cluster.job_annotations, key, job.annotations().get(key));
        }
    }
    refused
}

/// Keeps the admitted number of pods, which may be less than requested. Kueue stops all pods of a Job whose number of
/// pods differs from its Workload (`ensureOneWorkload`), unless it is elastic.
fn keep_admitted_size(job: &Job, cluster: &mut Cluster) -> Option<String> {
    if is_held(job) || is_elastic(job) {
        return None;
    }
    let queue = job.labels().get(QUEUE_LABEL)?;
    let (size, asked) = (u32::try_from(parallelism(job)).unwrap_or_default(), cluster.size);
    let queued = queued_size(job).map_or(size, i32::unsigned_abs);
    cluster.reduce_size(size);
    let why = if job.annotations().get(ELASTIC_ANNOTATION).is_some_and(|value| value == "true") {
        "; Kueue's feature ElasticJobsViaWorkloadSlices was off when the Job was made"
    } else {
        ""
    };
    (![size, queued].contains(&asked)).then(|| {
        format!(
            "spec.size: the queue {queue} has admitted {size} pods, and would stop all of them for {asked}{why}"
        )
    })
}

/// True when Kueue regards `job` as waiting (its `IsSuspended`).
fn is_held(job: &Job) -> bool {
    let stops = job.annotations().get(STOPPING_ANNOTATION).is_some_and(|value| value == "true");
    is_suspended(job) && !stops
}

/// True when Kueue lets the number of pods of `job` change: it has given the Job the gate that holds back new pods,
/// because the Job asked for it and the feature was on (`applyWorkloadSliceSchedulingGate` of Kueue 0.13 to 0.19).
fn is_elastic(job: &Job) -> bool {
    let pod = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let mut gates = pod.into_iter().flat_map(|pod| pod.scheduling_gates.iter().flatten());
    gates.any(|gate| gate.name == ELASTIC_ANNOTATION)
}

fn queued_size(job: &Job) -> Option<i32> {
    job.annotations().get(QUEUED_SIZE_ANNOTATION)?.parse().ok()
}

fn replace(entries: &mut BTreeMap<String, String>, key: &str, value: Option<&String>) {
    match value {
        Some(value) => entries.insert(key.to_owned(), value.clone()),
        None => entries.remove(key),
    };
}
