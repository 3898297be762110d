//! How many brokers a run has.

use super::facts::Facts;
use crate::controller::decide::queue::admitted_in_part;
use crate::controller::job_ext::{parallelism, ready_pods};
use crate::controller::observe::lifecycle::Lifecycle;
use flux_api::crd::MiniClusterStatus;

pub(super) struct Brokers {
    pub(super) ready: i32,
    pub(super) size: i32,
    /// Message about a queue that has admitted fewer pods than requested.
    pub(super) admitted: Option<String>,
}

impl Brokers {
    /// The numbers of the Job; the size from `old_run` if the Job is gone.
    pub(super) fn of(facts: &Facts<'_>, old_run: Option<&MiniClusterStatus>) -> Self {
        let ready = facts.live.job.as_ref().map(ready_pods).unwrap_or_default();
        let kept = old_run.map(|old| old.size);
        let size = facts.live.job.as_ref().map(parallelism).or(kept).unwrap_or_default();
        // The Job counts a ready lead a moment after the lead is ready.
        let least = i32::from(facts.live.lifecycle == Lifecycle::Running);
        let ready = if facts.end().is_some() { 0 } else { ready.max(least) };
        Self { ready, size, admitted: facts.live.job.as_ref().and_then(admitted_in_part) }
    }

    pub(super) fn message(&self) -> String {
        let admitted = self.admitted.as_ref().map(|admitted| format!(" ({admitted})"));
        format!("{} of {} brokers are ready{}", self.ready, self.size, admitted.unwrap_or_default())
    }
}
