//! What the Jobs and pods in a store are, by their own fields.

use flux_api::cluster::QUEUE_LABEL;
use flux_contract::labels;
use jiff::Timestamp;
use serde_json::{Value, json};

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

pub fn index_of(pod: &Value) -> u64 {
    pod["metadata"]["labels"][labels::COMPLETION_INDEX].as_str().unwrap().parse().unwrap()
}

pub fn condition<'status>(status: &'status Value, type_: &str) -> Option<&'status Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

pub(crate) fn is_true(status: &Value, type_: &str) -> bool {
    condition(status, type_).is_some_and(|condition| condition["status"] == "True")
}

/// Puts a condition into `status`, unless it has one with the same status and reason.
pub(crate) fn set_condition(
    status: &mut Value,
    type_: &str,
    is: bool,
    [reason, message]: [&str; 2],
    now: Timestamp,
) {
    let word = if is { "True" } else { "False" };
    let is_same = |it: &Value| it["status"] == word && it["reason"] == reason;
    if condition(status, type_).is_some_and(is_same) {
        return;
    }
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|condition| condition["type"] != type_);
    conditions.push(json!({
        "type": type_, "status": word, "reason": reason, "message": message,
        "lastTransitionTime": now.to_string(),
    }));
    status["conditions"] = Value::Array(conditions);
}
