//! Conditions in the status of an object.

use jiff::Timestamp;
use serde_json::{Value, json};

/// The condition of this type in `status`.
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
