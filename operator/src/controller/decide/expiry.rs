//! How long a MiniCluster that has finished stays.

use crate::crd::{MiniClusterSpec, MiniClusterStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

/// Longest wait for the end of that time: then it is looked at again.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// True when a finished MiniCluster is deleted sooner or later (`cleanup`, `ttlSecondsAfterFinished`).
pub(in crate::controller) const fn expires(spec: &MiniClusterSpec) -> bool {
    spec.cleanup || spec.ttl_seconds_after_finished.is_some()
}

/// How long a MiniCluster with this specification and status still stays, a day at most: nothing where it is to
/// be deleted now; absent where it has not finished, or stays until somebody deletes it.
pub(in crate::controller) fn time_until_deletion(
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
    use crate::controller::fixtures::at;
    use crate::crd::State;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

    fn finished() -> MiniClusterStatus {
        let condition = Condition {
            type_: "Complete".to_owned(),
            status: "True".to_owned(),
            reason: "CommandSucceeded".to_owned(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: at(110),
        };
        MiniClusterStatus {
            state: Some(State::Complete),
            completion_time: Some(at(100)),
            conditions: vec![condition],
            ..MiniClusterStatus::default()
        }
    }

    fn after(cleanup: bool, ttl: Option<i32>, now: i64) -> Option<u64> {
        let spec = MiniClusterSpec {
            cleanup,
            ttl_seconds_after_finished: ttl,
            ..MiniClusterSpec::default()
        };
        time_until_deletion(&spec, &finished(), &at(now)).map(|rest| rest.as_secs())
    }

    #[test]
    fn it_stays_for_the_time_that_is_given_from_its_end_on() {
        assert_eq!(after(false, None, 1_000), None);
        assert_eq!(after(false, Some(60), 100), Some(60));
        assert_eq!(after(false, Some(60), 159), Some(1));
        assert_eq!(after(false, Some(60), 160), Some(0));
        assert_eq!(after(false, Some(60), 90), Some(60), "a clock that is behind shortens nothing");
        assert_eq!(after(false, Some(i32::MAX), 100), Some(86_400), "it is looked at again");
        assert_eq!(after(true, None, 100), Some(0));
        assert_eq!(after(true, Some(60), 100), Some(0));
    }

    #[test]
    fn one_that_has_not_finished_stays() {
        let spec = MiniClusterSpec { cleanup: true, ..MiniClusterSpec::default() };
        let running =
            MiniClusterStatus { state: Some(State::Running), ..MiniClusterStatus::default() };
        assert_eq!(time_until_deletion(&spec, &running, &at(0)), None);
    }

    #[test]
    fn the_time_counts_from_the_condition_where_the_end_has_no_time() {
        let spec = MiniClusterSpec { ttl_seconds_after_finished: Some(60), ..Default::default() };
        let status = MiniClusterStatus { completion_time: None, ..finished() };
        assert_eq!(time_until_deletion(&spec, &status, &at(150)), Some(Duration::from_secs(20)));
    }
}
