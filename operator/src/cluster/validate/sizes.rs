//! Numbers of pods, and the other numbers of `spec` itself.

use super::faults::Faults;
use crate::crd::{MiniClusterSpec, SIZE_LIMIT};

/// Numbers of pods.
pub(super) struct Sizes {
    pub(super) size: u32,
    pub(super) max_size: u32,
    pub(super) min_size: Option<u32>,
}

/// Resolves and checks them, and the other numbers of `spec`.
pub(super) fn sizes(spec: &MiniClusterSpec, faults: &mut Faults) -> Sizes {
    let limits = 1..=SIZE_LIMIT;
    let fields =
        [("size", Some(spec.size)), ("maxSize", spec.max_size), ("minSize", spec.min_size)];
    for (field, value) in fields {
        faults.require(
            value.is_none_or(|value| limits.contains(&value)),
            format!("spec.{field}"),
            || format!("{} is out of range: give 1 to {SIZE_LIMIT}", value.unwrap_or_default()),
        );
    }
    let max_size = spec.max_size.unwrap_or(spec.size);
    faults.require(max_size >= spec.size, "spec.maxSize", || {
        format!("{max_size} is less than size {}: raise maxSize or lower size", spec.size)
    });
    let min_size = spec.min_size.unwrap_or(spec.size);
    faults.require(min_size <= spec.size, "spec.minSize", || {
        format!("{min_size} is greater than size {}: lower minSize or raise size", spec.size)
    });
    faults.require(spec.tasks >= 0, "spec.tasks", || {
        format!("{} is negative: give 0 for nodes only, or a number of tasks", spec.tasks)
    });
    faults.require(spec.deadline_seconds >= 1, "spec.deadlineSeconds", || {
        format!("{} is no deadline: give at least 1 second, or leave it out", spec.deadline_seconds)
    });
    faults.require(
        spec.start_deadline_seconds.is_none_or(|seconds| seconds >= 1),
        "spec.startDeadlineSeconds",
        || "not positive: give at least 1 second, or leave it out".to_owned(),
    );
    faults.require(
        spec.ttl_seconds_after_finished.is_none_or(|seconds| seconds >= 0),
        "spec.ttlSecondsAfterFinished",
        || "negative: give 0 for no time at all, or a number of seconds".to_owned(),
    );
    faults.require(spec.backoff_limit.is_none_or(|limit| limit >= 0), "spec.backoffLimit", || {
        "negative: give 0 for no further attempt, or a number of attempts".to_owned()
    });
    Sizes {
        size: spec.size.unsigned_abs(),
        max_size: max_size.unsigned_abs(),
        min_size: spec.min_size.map(i32::unsigned_abs),
    }
}
