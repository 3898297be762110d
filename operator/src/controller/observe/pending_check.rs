//! The last check why pods do not start, and the time of the next one: the interval grows while nothing changes.

use super::waiting::{PERSISTENT_AFTER, Waiting};
use std::time::Duration;
use tokio::time::Instant;

/// Time from the start of a Job to the first check: most pods start within it. Also the least time between two checks.
pub(crate) const CHECK_DELAY: Duration = Duration::from_secs(5);
/// Time from the first check to the second; each later interval is this plus the time since the first check.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Longest time between two checks.
const MAX_CHECK_INTERVAL: Duration = Duration::from_mins(5);

/// The last check why pods do not start.
#[derive(Debug, Clone)]
pub(crate) struct PendingCheck {
    /// Resource versions of the Job and its lead.
    pub(super) versions: [Option<String>; 2],
    /// Time of the last check that found something new.
    pub(super) since: Instant,
    pub(super) at: Instant,
    pub(super) number: usize,
    pub(super) findings: PendingFindings,
}

/// Why pods do not start.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingFindings {
    pub(crate) waiting: Option<Waiting>,
    /// Why the Job controller creates fewer pods than the Job asks for.
    pub(crate) refused: Option<String>,
    /// The namespace is being deleted, so the Job gets no more pods.
    pub(crate) namespace_ends: bool,
    /// A hash of the pending pods and their resource versions.
    pub(super) pods: u64,
    /// The uids of pods whose Events were read, each with the message of the newest.
    pub(super) pods_without_reason: Vec<(String, Option<String>)>,
}

impl PendingCheck {
    pub(super) const fn new(
        versions: [Option<String>; 2],
        now: Instant,
        findings: PendingFindings,
    ) -> Self {
        Self { versions, since: now, at: now, number: 0, findings }
    }

    /// Time from this check to the next if nothing changes.
    pub(super) fn interval(&self) -> Duration {
        (self.at - self.since + CHECK_INTERVAL).min(MAX_CHECK_INTERVAL)
    }

    /// Time until the next check.
    pub(super) fn remaining(&self) -> Duration {
        self.interval().saturating_sub(self.at.elapsed())
    }

    pub(super) fn findings(&self) -> PendingFindings {
        let mut findings = self.findings.clone();
        // The same findings since then mean that the pod has waited since then.
        let is_persistent = self.since.elapsed() >= PERSISTENT_AFTER;
        findings.waiting.iter_mut().for_each(|waiting| waiting.is_persistent |= is_persistent);
        findings
    }
}

impl PendingFindings {
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let message = |findings: &Self| findings.waiting.as_ref().map(|it| it.message.clone());
        message(self) == message(other)
            && (&self.refused, self.namespace_ends) == (&other.refused, other.namespace_ends)
    }
}
