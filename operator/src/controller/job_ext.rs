//! Functions on a Job: its progress, and the operator's annotations on it.

use flux_api::objects::{GENERATION_ANNOTATION, SUSPENDED_ANNOTATION};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

/// Annotation of the Job: the start time of the Job in whose run the quorum was reached.
pub(super) const QUORUM_ANNOTATION: &str = "flux-framework.org/running-since-start";

/// Annotation of the Job: what it waited for when the start deadline passed.
pub(super) const LATE_START_ANNOTATION: &str = "flux-framework.org/start-deadline-exceeded";

/// Annotation of a Job that the operator ended: the containers that kept its pods running after the run.
pub(super) const HELD_ANNOTATION: &str = "flux-framework.org/held-by-containers";

/// Prefix of the note on a Job that was suspended because no job of Flux needed a pod.
pub(super) const IDLE_PREFIX: &str = "idle/";

pub(super) fn noted_generation(job: &Job) -> Option<i64> {
    job.annotations().get(GENERATION_ANNOTATION)?.parse().ok()
}

pub(super) fn noted_keys<'job>(job: &'job Job, note: &str) -> impl Iterator<Item = &'job str> {
    let keys = job.annotations().get(note).map_or("", String::as_str);
    keys.split(',').filter(|key| !key.is_empty())
}

pub(super) fn job_condition<'job>(job: &'job Job, type_: &str) -> Option<&'job JobCondition> {
    let mut conditions = job.status.as_ref()?.conditions.as_ref()?.iter();
    conditions.find(|condition| condition.type_ == type_ && condition.status == "True")
}

pub(super) fn is_finished(job: &Job) -> bool {
    is_failed(job) || job_condition(job, "Complete").is_some()
}

pub(super) fn is_failed(job: &Job) -> bool {
    job_condition(job, "Failed").is_some()
}

/// True once the Job controller has decided how the Job ends, although pods may be left (KEP-3329, KEP-3998).
pub(super) fn is_ending(job: &Job) -> bool {
    let decided = ["FailureTarget", "SuccessCriteriaMet"];
    is_finished(job) || decided.iter().any(|type_| job_condition(job, type_).is_some())
}

pub(super) fn is_suspended(job: &Job) -> bool {
    job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true)
}

/// The operator's note why it has suspended the Job; `None` if another actor has suspended it.
pub(super) fn noted_suspension(job: &Job) -> Option<&str> {
    job.annotations().get(SUSPENDED_ANNOTATION).filter(|_| is_suspended(job)).map(String::as_str)
}

/// When the Job was started; a suspended Job has no start time.
pub(super) fn start_time(job: &Job) -> Option<&Time> {
    job.status.as_ref()?.start_time.as_ref()
}

pub(super) fn ready_pods(job: &Job) -> i32 {
    job.status.as_ref().and_then(|status| status.ready).unwrap_or_default()
}

/// True for a Job that replaces lost pods and never repeats its command.
pub(super) fn counts_by_index(job: &Job) -> bool {
    job.spec.as_ref().is_some_and(|spec| spec.backoff_limit_per_index.is_some())
}

pub(super) fn has_pods(job: &Job) -> bool {
    let counts = |it: &JobStatus| [it.active, it.ready, it.terminating];
    let counts = job.status.as_ref().map(counts).into_iter().flatten();
    counts.flatten().any(|count| count > 0)
}

/// True while the Job runs and not all brokers are ready. The Job's status does not have what pods wait for.
pub(super) fn lacks_brokers(job: &Job) -> bool {
    is_started(job) && ready_pods(job) < parallelism(job)
}

pub(super) fn parallelism(job: &Job) -> i32 {
    job.spec.as_ref().and_then(|spec| spec.parallelism).unwrap_or_default()
}

fn is_started(job: &Job) -> bool {
    start_time(job).is_some() && !is_suspended(job) && !is_finished(job)
}

/// True while the Job runs and has fewer pods than it should. No change of the Job shows why. Failed pods do not
/// count, because the Job controller replaces them.
pub(super) fn lacks_pods(job: &Job) -> bool {
    let made: i32 = job.status.as_ref().map_or(0, |status| {
        [status.active, status.succeeded, status.terminating].into_iter().flatten().sum()
    });
    is_started(job) && made < parallelism(job)
}

/// True if `container` is in the pod template of `job`, so that no webhook has added it.
pub(super) fn is_own(job: &Job, container: &str) -> bool {
    let pod = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    container == job.name_any()
        || pod.is_some_and(|pod| pod.containers.iter().any(|own| own.name == container))
}
