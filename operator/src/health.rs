//! Whether the thread that reconciles comes round: what `/healthz` answers.
//!
//! That is enough: a reconcile that waits is given up after a minute, by that thread, and one that
//! computes keeps it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest time without a beat of the thread that reconciles.
const NO_BEAT: Duration = Duration::from_mins(1);
/// Time between two beats.
pub(crate) const BEAT: Duration = Duration::from_secs(5);

/// When the thread that reconciles last came round. The time is an argument, so that tests need not wait.
#[derive(Debug)]
pub(crate) struct Health(Mutex<Instant>);

impl Health {
    /// All is well at `now`.
    pub(crate) const fn new(now: Instant) -> Self {
        Self(Mutex::new(now))
    }

    /// The thread that reconciles has come round.
    pub(crate) fn beat(&self, now: Instant) {
        *self.last_beat() = now;
    }

    /// Why the operator has to be started again, if it has to.
    pub(crate) fn stuck(&self, now: Instant) -> Option<String> {
        let since = now.saturating_duration_since(*self.last_beat());
        (since > NO_BEAT).then(|| {
            format!("the thread that reconciles has not come round for {} s", since.as_secs())
        })
    }

    fn last_beat(&self) -> MutexGuard<'_, Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_do_not_come_round_for_a_minute_are_stuck() {
        let begin = Instant::now();
        let health = Health::new(begin);
        assert_eq!(health.stuck(begin + NO_BEAT), None);
        let late = begin + NO_BEAT + Duration::from_secs(1);
        assert!(health.stuck(late).unwrap().contains("61 s"));
        health.beat(late);
        assert_eq!(health.stuck(late), None);
    }
}
