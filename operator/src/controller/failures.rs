//! Counts the failures in a row of each MiniCluster, and computes the wait before the next attempt. Like every lock
//! of the operator, this one is not poisoned by the panic of a reconcile.

use kube::ResourceExt;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

/// Wait after the first failure; each further failure doubles it.
pub(super) const FIRST_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_mins(5);

/// Number of failures in a row by namespace and name, and the uid: a new object of the same name begins at 0.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<Streaks>);

type Streaks = HashMap<(Option<String>, String), (Option<String>, u32)>;

impl Failures {
    /// Counts a failure; returns the number of failures in a row and the wait.
    pub(super) fn failed(&self, object: &impl ResourceExt) -> (u32, Duration) {
        let mut streaks = self.0.lock();
        let streak = streaks.entry((object.namespace(), object.name_any())).or_default();
        let before = if streak.0 == object.uid() { streak.1 } else { 0 };
        *streak = (object.uid(), before.saturating_add(1));
        (streak.1, backoff(streak.1))
    }

    pub(super) fn forget(&self, namespace: Option<&str>, name: &str) {
        self.0.lock().remove(&(namespace.map(str::to_owned), name.to_owned()));
    }
}

fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    FIRST_RETRY.saturating_mul(1 << doublings).min(MAX_RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;

    #[test]
    fn waits_double_up_to_five_minutes() {
        for (failures, seconds) in [(1, 1), (4, 8), (9, 256), (10, 300), (u32::MAX, 300)] {
            assert_eq!(backoff(failures), Duration::from_secs(seconds));
        }
    }

    #[test]
    fn success_or_replacement_resets_the_failures() {
        let failures = Failures::default();
        let failed = |uid: &str| {
            let mut pod = Pod::default();
            (pod.metadata.name, pod.metadata.uid) = (Some("a".to_owned()), Some(uid.to_owned()));
            failures.failed(&pod).0
        };
        assert_eq!([failed("1"), failed("1"), failed("2")], [1, 2, 1]);
        failures.forget(None, "a");
        assert!(failures.0.lock().is_empty());
    }
}
