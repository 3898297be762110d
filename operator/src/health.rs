//! How the operator is: what `/healthz` and `/readyz` answer.
//!
//! It is alive as long as the thread that reconciles comes round. That is enough: a reconcile that waits is given up
//! after a minute, by that thread, and one that computes keeps it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest time without a beat of the thread that reconciles.
const NO_BEAT: Duration = Duration::from_mins(1);
pub(crate) const BEAT: Duration = Duration::from_secs(5);

/// The time is an argument, so that tests need not wait.
#[derive(Debug)]
pub(crate) struct Health {
    /// When the thread that reconciles last came round.
    last_beat: Mutex<Instant>,
    is_ready: AtomicBool,
}

impl Health {
    /// All is well at `now`, and nothing is ready yet.
    pub(crate) const fn new(now: Instant) -> Self {
        Self { last_beat: Mutex::new(now), is_ready: AtomicBool::new(false) }
    }

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

    /// It stands by, or knows every MiniCluster there is.
    pub(crate) fn set_ready(&self) {
        self.is_ready.store(true, Ordering::Release);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    fn last_beat(&self) -> MutexGuard<'_, Instant> {
        self.last_beat.lock().unwrap_or_else(PoisonError::into_inner)
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
