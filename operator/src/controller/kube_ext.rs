//! What a Job says of itself: how far it is, and what the operator has noted on it.

use k8s_openapi::api::batch::v1::{Job, JobStatus};
use kube::ResourceExt as _;

/// Annotation of the Job: generation of the MiniCluster it was last brought in line with.
pub(super) const GENERATION_ANNOTATION: &str = "flux-framework.org/generation";

/// Annotation of the Job: the keys of its labels that come from the MiniCluster.
pub(super) const JOB_LABELS_ANNOTATION: &str = "flux-framework.org/job-labels";

/// Annotation of the Job: the keys of its annotations that come from the MiniCluster.
pub(super) const JOB_ANNOTATIONS_ANNOTATION: &str = "flux-framework.org/job-annotations";

/// Annotation of the Job: the specification has suspended it.
pub(super) const SUSPENDED_ANNOTATION: &str = "flux-framework.org/suspended";

/// Annotation of the Job: the start of the Job since which the quorum was reached once.
pub(super) const RAN_ANNOTATION: &str = "flux-framework.org/running-since-start";

/// Annotation of the Job: what it waited for when the time to start was over.
pub(super) const CAUSE_ANNOTATION: &str = "flux-framework.org/start-deadline-exceeded";

/// The generation of the specification that `job` was last in line with.
pub(super) fn noted_generation(job: &Job) -> Option<i64> {
    job.annotations().get(GENERATION_ANNOTATION)?.parse().ok()
}

/// The keys that are listed in the annotation `note` of `job`.
pub(super) fn noted_keys<'job>(job: &'job Job, note: &str) -> impl Iterator<Item = &'job str> {
    let keys = job.annotations().get(note).map_or("", String::as_str);
    keys.split(',').filter(|key| !key.is_empty())
}

/// True once the Job has ended, well or not.
pub(super) fn is_finished(job: &Job) -> bool {
    is_any(job, &["Complete", "Failed"])
}

/// True once the Job has failed.
pub(super) fn is_failed(job: &Job) -> bool {
    is_any(job, &["Failed"])
}

/// True once it is decided how the Job ends, though pods of it may be left (KEP-3329, KEP-3998).
pub(super) fn is_ending(job: &Job) -> bool {
    is_finished(job) || is_any(job, &["FailureTarget", "SuccessCriteriaMet"])
}

fn is_any(job: &Job, types: &[&str]) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_deref());
    let is_true = |type_: &str| types.contains(&type_);
    conditions.unwrap_or_default().iter().any(|it| it.status == "True" && is_true(&it.type_))
}

/// True while the Job is to have no pods.
pub(super) fn is_suspended(job: &Job) -> bool {
    job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true)
}

/// True when the specification has suspended the Job.
pub(super) fn is_suspended_by_specification(job: &Job) -> bool {
    is_suspended(job) && job.annotations().contains_key(SUSPENDED_ANNOTATION)
}

/// True while pods of the Job are there that have not ended.
pub(super) fn has_pods(job: &Job) -> bool {
    let counts = |it: &JobStatus| [it.active, it.ready, it.terminating];
    let counts = job.status.as_ref().map(counts).into_iter().flatten();
    counts.flatten().any(|count| count > 0)
}
