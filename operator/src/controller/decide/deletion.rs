//! When a finished MiniCluster is deleted (`cleanup`, `ttlSecondsAfterFinished`).

use flux_api::crd::{MiniClusterSpec, MiniClusterStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

/// Longest wait until the remaining time is computed again.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// True when the operator will delete the finished MiniCluster.
pub(crate) const fn expires(spec: &MiniClusterSpec) -> bool {
    spec.cleanup || spec.ttl_seconds_after_finished.is_some()
}

/// Time until the MiniCluster is deleted, at most a day; zero if it is over, `None` if it is not to be deleted, as where
/// it `runs_again`.
pub(crate) fn time_until_deletion(
    spec: &MiniClusterSpec,
    runs_again: bool,
    status: &MiniClusterStatus,
    now: &Time,
) -> Option<Duration> {
    let ended = status.ended_at().filter(|_| expires(spec) && !runs_again)?;
    let seconds =
        if spec.cleanup { 0 } else { spec.ttl_seconds_after_finished.unwrap_or_default() };
    let passed = Duration::try_from(now.0.duration_since(ended.0)).unwrap_or_default();
    let whole = Duration::from_secs(seconds.unsigned_abs().into());
    Some(whole.saturating_sub(passed).min(LONGEST_WAIT))
}
