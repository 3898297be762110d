//! A pod of the lead whose runner has ended and that containers of others hold (the proxy of a mesh). They get the pod's
//! grace period. Then the pod is deleted; if the run has ended, its Job is ended by its deadline instead, because the Job
//! would make another pod.

use super::change::Change;
use crate::controller::job_ext::{HELD_ANNOTATION, is_ending, is_suspended};
use crate::controller::observe::Live;
use crate::controller::pod_ext::{end_of, running_beside};
use flux_contract::AgentConfig;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::ResourceExt as _;
use serde_json::json;
use std::time::Duration;

/// The least of it: the Job controller is up to two seconds behind, and then ends a Job that nothing holds.
const LEAST: Duration = Duration::from_secs(10);

/// How long the pod may still be held; absent where none is.
pub(crate) fn rest(live: &Live, config: Option<&AgentConfig>, now: &Time) -> Option<Duration> {
    let (job, pod) = held(live)?;
    let end = end_of(pod, &job.name_any())?.finished_at.as_ref()?;
    let grace = config.map(|config| config.shutdown.grace_seconds).unwrap_or_default();
    let passed = Duration::try_from(now.0.duration_since(end.0)).unwrap_or_default();
    Some(Duration::from_secs(grace).max(LEAST).saturating_sub(passed))
}

/// Deletes the pod.
pub(crate) fn delete_pod(live: &Live) -> Change<Pod> {
    held(live).map_or(Change::Keep, |(_, pod)| Change::delete(pod))
}

/// Ends the Job.
pub(crate) fn end_job(live: &Live) -> Change<Job> {
    let Some((job, pod)) = held(live) else { return Change::Keep };
    let patch = json!({
        "metadata": { "annotations": { HELD_ANNOTATION: running_beside(pod, &job.name_any()) } },
        "spec": { "activeDeadlineSeconds": 1 },
    });
    Change::patch(job, patch)
}

/// The pod that is held, and its Job, where nothing else ends them.
fn held(live: &Live) -> Option<(&Job, &Pod)> {
    let (job, pod) = (live.job.as_ref()?, live.pods.held.as_ref()?);
    let goes = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_some();
    let ends = goes(&job.metadata) || goes(&pod.metadata) || is_ending(job) || is_suspended(job);
    let is_open = !ends && !job.annotations().contains_key(HELD_ANNOTATION);
    is_open.then_some((job, pod))
}
