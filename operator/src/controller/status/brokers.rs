//! How many brokers a run has.

use super::facts::Facts;
use super::phase::Phase;
use crate::controller::decide::queue::admitted_in_part;
use crate::controller::job_ext::{parallelism, ready_pods};
use flux_api::crd::{MiniClusterStatus, State};

pub(super) struct Brokers {
    pub(super) ready: i32,
    pub(super) size: i32,
    /// That they are fewer than was asked for, as a queue has admitted no more.
    pub(super) admitted: Option<String>,
}

impl Brokers {
    /// From the Job; its size from the status of the same run where the Job is gone.
    pub(super) fn of(
        facts: &Facts<'_>,
        phase: &Phase,
        old_run: Option<&MiniClusterStatus>,
    ) -> Self {
        let ready = facts.live.job.as_ref().map(ready_pods).unwrap_or_default();
        let kept = old_run.map(|old| old.size);
        let size = facts.live.job.as_ref().map(parallelism).or(kept).unwrap_or_default();
        // The Job counts its ready pods a moment later than the lead is one of them.
        let least = i32::from(phase.state == State::Running);
        let ready = if phase.end.is_some() { 0 } else { ready.max(least) };
        Self { ready, size, admitted: facts.live.job.as_ref().and_then(admitted_in_part) }
    }

    pub(super) fn message(&self) -> String {
        let admitted = self.admitted.as_ref().map(|admitted| format!(" ({admitted})"));
        format!("{} of {} brokers are ready{}", self.ready, self.size, admitted.unwrap_or_default())
    }
}
