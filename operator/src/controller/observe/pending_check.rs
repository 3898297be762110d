//! What was found out about pods that do not start, and when it is asked for again: ever more seldom while nothing is
//! new.

use super::waiting::{PATIENCE, Waiting};
use std::time::Duration;
use tokio::time::Instant;

/// Time from the start of a Job on, and between two checks, in which nobody asks why pods do not start: most do.
pub(crate) const BEGIN: Duration = Duration::from_secs(5);
/// Time to the second check. Each further one is as much later as all of them took, and this.
const PAUSE: Duration = Duration::from_secs(10);
/// Longest time to the next check.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// When it was asked why pods do not start, and what was found.
#[derive(Debug, Clone)]
pub(crate) struct Check {
    /// Of the Job and its lead.
    pub(super) versions: [Option<String>; 2],
    /// Since when nothing new was found.
    pub(super) since: Instant,
    pub(super) at: Instant,
    /// How many checks there were before this one.
    pub(super) number: usize,
    pub(super) found: Found,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Found {
    pub(crate) waiting: Option<Waiting>,
    /// Why the Job gets fewer pods than it asks for.
    pub(crate) refused: Option<String>,
    /// The namespace is being deleted, and the Job gets no pods there any more.
    pub(crate) namespace_ends: bool,
    /// A hash of the pods that wait, and their versions.
    pub(super) pods: u64,
    /// The uids of the pods whose Events were read, each with what they say.
    pub(super) silent: Vec<(String, Option<String>)>,
}

impl Check {
    pub(super) const fn new(versions: [Option<String>; 2], now: Instant, found: Found) -> Self {
        Self { versions, since: now, at: now, number: 0, found }
    }

    /// Time from this check to the next, if nothing changes.
    pub(super) fn pause(&self) -> Duration {
        (self.at - self.since + PAUSE).min(LONGEST_PAUSE)
    }

    /// How much of it is left.
    pub(super) fn rest(&self) -> Duration {
        self.pause().saturating_sub(self.at.elapsed())
    }

    pub(super) fn found(&self) -> Found {
        let mut found = self.found.clone();
        // A pod that has told the same since then has waited so long.
        let lasts = self.since.elapsed() >= PATIENCE;
        found.waiting.iter_mut().for_each(|waiting| waiting.lasts |= lasts);
        found
    }
}

impl Found {
    pub(super) fn tells_the_same(&self, other: &Self) -> bool {
        let message = |found: &Self| found.waiting.as_ref().map(|it| it.message.clone());
        message(self) == message(other)
            && (&self.refused, self.namespace_ends) == (&other.refused, other.namespace_ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Check {
        pub(crate) fn empty() -> Self {
            Self::new([None, None], Instant::now(), Found::default())
        }
    }
}
