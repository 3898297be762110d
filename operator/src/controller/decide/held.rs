//! Handles a pod of the lead that foreign containers, such as the proxy of a mesh, keep running after its runner has
//! ended. They get the grace period of the pod. Then the pod is deleted; but if the run has ended, its Job is ended
//! by a deadline instead, because the Job would replace the pod.

use super::change::Change;
use crate::controller::job_ext::{HELD_ANNOTATION, is_ending, is_suspended};
use crate::controller::observe::Observed;
use crate::controller::pod_ext::{end_of, running_beside};
use flux_contract::AgentConfig;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::ResourceExt as _;
use serde_json::json;
use std::time::Duration;

/// Shortest time that such a pod gets: the Job controller, which is up to two seconds late, may end the Job itself.
const MIN_TIME: Duration = Duration::from_secs(10);

/// How long the pod may still run; `None` if there is no such pod.
pub(crate) fn remaining(
    live: &Observed,
    config: Option<&AgentConfig>,
    now: &Time,
) -> Option<Duration> {
    let (job, pod) = held(live)?;
    let end = end_of(pod, &job.name_any())?.finished_at.as_ref()?;
    let grace = config.map(|config| config.shutdown.grace_seconds).unwrap_or_default();
    let passed = Duration::try_from(now.0.duration_since(end.0)).unwrap_or_default();
    Some(Duration::from_secs(grace).max(MIN_TIME).saturating_sub(passed))
}

pub(crate) fn delete_pod(live: &Observed) -> Change<Pod> {
    held(live).map_or(Change::Keep, |(_, pod)| Change::delete(pod))
}

/// The patch that ends the Job and notes the containers that kept its pod running.
pub(crate) fn end_job(live: &Observed) -> Change<Job> {
    let Some((job, pod)) = held(live) else { return Change::Keep };
    let patch = json!({
        "metadata": { "annotations": { HELD_ANNOTATION: running_beside(pod, &job.name_any()) } },
        "spec": { "activeDeadlineSeconds": 1 },
    });
    Change::patch(job, patch)
}

/// The pod and its Job, unless one of them is about to end for another reason.
fn held(live: &Observed) -> Option<(&Job, &Pod)> {
    let (job, pod) = (live.job.as_ref()?, live.pods.held.as_ref()?);
    let deleted = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_some();
    let ends =
        deleted(&job.metadata) || deleted(&pod.metadata) || is_ending(job) || is_suspended(job);
    let is_open = !ends && !job.annotations().contains_key(HELD_ANNOTATION);
    is_open.then_some((job, pod))
}
