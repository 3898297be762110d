//! Whether the operator gets anywhere: what `/healthz` answers.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest time without the end of a reconcile while some are under way. One that waits is given
/// up after a minute; only one that computes can take longer.
const NO_END: Duration = Duration::from_mins(3);
/// Longest time without a beat of the thread that reconciles.
const NO_BEAT: Duration = Duration::from_mins(1);
/// Time between two beats.
pub(crate) const BEAT: Duration = Duration::from_secs(5);

/// Why the operator has to be started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stuck {
    /// Reconciles are under way and none ends.
    #[error("{running} reconciles are under way and none has ended for {} s", since.as_secs())]
    Reconciles {
        /// How many.
        running: usize,
        /// Time since the last one ended, or the first of them began.
        since: Duration,
    },
    /// The thread that reconciles has no time for anything else.
    #[error("the thread that reconciles has not come round for {} s", since.as_secs())]
    Threads {
        /// Time since it last did.
        since: Duration,
    },
}

/// What is known of the progress. The time is an argument, so that tests need not wait.
#[derive(Debug)]
pub(crate) struct Health(Mutex<Progress>);

#[derive(Debug)]
struct Progress {
    /// Reconciles under way.
    running: usize,
    /// When the last reconcile ended, or the first one began after none had been under way.
    moved: Instant,
    /// When the thread that reconciles last came round.
    beat: Instant,
}

impl Health {
    /// Nothing is under way, and all is well.
    pub(crate) fn new(now: Instant) -> Self {
        Self(Mutex::new(Progress { running: 0, moved: now, beat: now }))
    }

    /// The thread that reconciles has come round.
    pub(crate) fn beat(&self, now: Instant) {
        self.progress().beat = now;
    }

    /// A reconcile has begun.
    pub(crate) fn began(&self, now: Instant) {
        let mut progress = self.progress();
        if progress.running == 0 {
            progress.moved = now;
        }
        progress.running += 1;
    }

    /// A reconcile has ended, well or not.
    pub(crate) fn ended(&self, now: Instant) {
        let mut progress = self.progress();
        progress.moved = now;
        progress.running = progress.running.saturating_sub(1);
    }

    /// Whether the operator gets anywhere.
    pub(crate) fn check(&self, now: Instant) -> Result<(), Stuck> {
        let Progress { running, moved, beat } = *self.progress();
        let since = now.saturating_duration_since(beat);
        if since > NO_BEAT {
            return Err(Stuck::Threads { since });
        }
        let since = now.saturating_duration_since(moved);
        if running > 0 && since > NO_END {
            return Err(Stuck::Reconciles { running, since });
        }
        Ok(())
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Health {
    fn default() -> Self {
        Self::new(Instant::now())
    }
}

/// A reconcile under way: it has ended when this is dropped, by whatever end.
#[derive(Debug)]
pub(crate) struct UnderWay<'health>(&'health Health);

impl<'health> UnderWay<'health> {
    /// One more is under way.
    pub(crate) fn new(health: &'health Health) -> Self {
        health.began(Instant::now());
        Self(health)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.ended(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Health whose threads come round at `now`.
    fn beating(health: &Health, now: Instant) -> &Health {
        health.beat(now);
        health
    }

    #[test]
    fn an_operator_with_nothing_to_do_is_well_however_long() {
        let begin = Instant::now();
        let health = Health::new(begin);
        let later = begin + 10 * NO_END;
        assert_eq!(beating(&health, later).check(later), Ok(()));
    }

    #[test]
    fn reconciles_of_which_none_ends_for_minutes_are_stuck() {
        let begin = Instant::now();
        let health = Health::new(begin);
        let first = begin + 10 * NO_END;
        health.began(first);
        health.began(first + SECOND);
        let limit = first + NO_END;
        assert_eq!(beating(&health, limit).check(limit), Ok(()));
        let late = limit + SECOND;
        let stuck = Stuck::Reconciles { running: 2, since: NO_END + SECOND };
        assert_eq!(beating(&health, late).check(late), Err(stuck));
        health.ended(late);
        assert_eq!(beating(&health, late).check(late), Ok(()));
        health.ended(late);
        let idle = late + 10 * NO_END;
        assert_eq!(beating(&health, idle).check(idle), Ok(()));
    }

    #[test]
    fn threads_that_do_not_come_round_for_a_minute_are_stuck() {
        let begin = Instant::now();
        let health = Health::new(begin);
        assert_eq!(health.check(begin + NO_BEAT), Ok(()));
        let stuck = Stuck::Threads { since: NO_BEAT + SECOND };
        assert_eq!(health.check(begin + NO_BEAT + SECOND), Err(stuck));
        assert!(stuck.to_string().contains("61 s"), "{stuck}");
    }

    #[test]
    fn a_reconcile_that_is_dropped_has_ended() {
        let health = Health::default();
        let reconcile = UnderWay::new(&health);
        assert_eq!(health.progress().running, 1);
        drop(reconcile);
        assert_eq!(health.progress().running, 0);
    }
}
