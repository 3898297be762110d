//! What the Jobs and pods in a store are, by their own fields.

use super::conditions::is_true;
use flux_api::cluster::QUEUE_LABEL;
use flux_contract::labels;
use serde_json::Value;

/// True for a Job that waits for its turn in a queue.
pub fn is_queued(object: &Value) -> bool {
    object["kind"] == "Job" && !object["metadata"]["labels"][QUEUE_LABEL].is_null()
}

/// True for a Job that has no pods until it is resumed.
pub fn is_suspended(job: &Value) -> bool {
    job["spec"]["suspend"] == true
}

/// True for a Job that is complete or has failed.
pub fn is_finished(job: &Value) -> bool {
    is_true(&job["status"], "Complete") || is_true(&job["status"], "Failed")
}

/// True for a pod whose containers have all ended.
pub fn is_over(pod: &Value) -> bool {
    pod["status"]["phase"] == "Succeeded" || pod["status"]["phase"] == "Failed"
}

/// True for a pod with the condition `Ready`.
pub fn is_ready(pod: &Value) -> bool {
    is_true(&pod["status"], "Ready")
}

/// True for an object that somebody has deleted and that waits for its finalizers.
pub(crate) fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// True for a pod of a Job, false for one of `spec.services`.
pub fn is_broker(pod: &Value) -> bool {
    !pod["metadata"]["labels"][labels::COMPLETION_INDEX].is_null()
}

/// The index of a pod in its Job.
pub fn index_of(pod: &Value) -> u64 {
    pod["metadata"]["labels"][labels::COMPLETION_INDEX].as_str().unwrap().parse().unwrap()
}
