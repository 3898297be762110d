//! Failures in a row, by object, and how long to wait after them. As everywhere in the operator, the lock is one that a
//! panic of a reconcile does not poison: the others go on with it.

use kube::ResourceExt;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

/// Wait after the first failure; doubled with each further one.
pub(super) const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_mins(5);

/// Failures in a row of the objects that fail now, by namespace and name; each with the uid of the object whose
/// failures these are: one that takes over the name begins at none.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<Streaks>);

type Streaks = HashMap<(Option<String>, String), (Option<String>, u32)>;

impl Failures {
    /// Notes a failure; the answer is how many in a row that makes, and how long to wait.
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
    FIRST_RETRY.saturating_mul(1 << doublings).min(LAST_RETRY)
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
