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

/// Time until the MiniCluster is deleted, at most a day; zero if it is over, `None` if it is not to be deleted.
pub(crate) fn time_until_deletion(
    spec: &MiniClusterSpec,
    status: &MiniClusterStatus,
    now: &Time,
) -> Option<Duration> {
    let end = status.end().filter(|_| expires(spec))?;
    let seconds =
        if spec.cleanup { 0 } else { spec.ttl_seconds_after_finished.unwrap_or_default() };
    let ended = status.completion_time.as_ref().unwrap_or(&end.last_transition_time);
    let passed = Duration::try_from(now.0.duration_since(ended.0)).unwrap_or_default();
    let whole = Duration::from_secs(seconds.unsigned_abs().into());
    Some(whole.saturating_sub(passed).min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{at, condition};
    use flux_api::crd::State;

    #[test]
    fn a_finished_minicluster_stays_for_its_time_to_live() {
        // The run ended at second 100, and its condition became true at second 110.
        let (ended, no_time) = (Some(at(100)), None);
        for (cleanup, ttl, completed, now, expected) in [
            (false, None, &ended, 1_000, None),
            (false, Some(60), &ended, 100, Some(60)),
            (false, Some(60), &ended, 159, Some(1)),
            (false, Some(60), &ended, 160, Some(0)),
            // A clock that is behind does not shorten the time.
            (false, Some(60), &ended, 90, Some(60)),
            // A long time is computed again after a day.
            (false, Some(i32::MAX), &ended, 100, Some(86_400)),
            (false, Some(60), &no_time, 150, Some(20)),
            (true, None, &ended, 100, Some(0)),
            (true, Some(60), &ended, 100, Some(0)),
        ] {
            let mut status = MiniClusterStatus {
                state: Some(State::Complete),
                completion_time: completed.clone(),
                conditions: vec![condition("Complete", "True", "CommandSucceeded", 110)],
                ..MiniClusterStatus::default()
            };
            let spec = MiniClusterSpec {
                cleanup,
                ttl_seconds_after_finished: ttl,
                ..MiniClusterSpec::default()
            };
            let remaining = |status: &_| time_until_deletion(&spec, status, &at(now));
            assert_eq!(remaining(&status).map(|it| it.as_secs()), expected, "{ttl:?} {now}");
            status.state = Some(State::Running);
            assert_eq!(remaining(&status), None, "it has not finished");
        }
    }
}
