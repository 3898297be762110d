//! The input of the status, and what several conditions take from it.

use crate::controller::decide::Plan;
use crate::controller::decide::queue::admitted_in_part;
use crate::controller::error::Error;
use crate::controller::job_ext::{noted_generation, parallelism, ready_pods};
use crate::controller::observe::Observed;
use crate::controller::observe::lifecycle::{End, Lifecycle};
use crate::controller::observe::pod_view::PodView;
use crate::controller::pod_ext::replaced_before;
use flux_api::crd::{MiniClusterStatus, State};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(crate) struct Facts<'facts> {
    /// The objects after the writes of the plan.
    pub(crate) live: &'facts Observed,
    pub(crate) plan: &'facts Plan,
    /// The error that stopped the writes of the plan.
    pub(crate) error: Option<&'facts Error>,
}

impl Facts<'_> {
    pub(super) fn state(&self) -> State {
        let lifecycle = &self.live.lifecycle;
        let is_invalid = *lifecycle == Lifecycle::New && self.plan.violations.is_some();
        if is_invalid { State::Invalid } else { lifecycle.state() }
    }

    pub(super) fn end(&self) -> Option<&End> {
        self.live.lifecycle.end()
    }

    /// The generation that the status answers. A run that has ended answers its own, not one that asks for the next run:
    /// tools would take its end for that of the next.
    pub(super) fn answered_generation(&self) -> i64 {
        let is_of_last = self.plan.runs_again && self.end().is_some();
        if is_of_last { self.generation() } else { self.plan.generation }
    }

    /// The generation of the specification that the run was started with, if there is a run.
    pub(super) fn generation(&self) -> i64 {
        let noted = self.live.job.as_ref().and_then(noted_generation);
        let ended = self.live.lifecycle.record().map(|run| run.generation);
        noted.or(ended).unwrap_or(self.plan.generation)
    }
}

/// How many brokers a run has.
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

/// Why the lead was or will be replaced; `None` for a first lead, and for a command's lead, which is never replaced.
pub(super) fn replaced(
    facts: &Facts<'_>,
    runner: &str,
    lead: Option<&PodView<'_>>,
    now: &Time,
) -> Option<String> {
    let lead = lead.filter(|_| facts.plan.interactive)?;
    let earlier = facts.live.pods.earlier_lead.as_ref();
    let earlier = earlier.map(|pod| PodView::new(pod, runner, now));
    // A pod without started containers had no jobs.
    let ended = [Some(lead), earlier.as_ref()].into_iter().flatten().find(|it| it.ended.is_some());
    let outcome = ended.and_then(PodView::failure).or_else(|| lead.earlier_end());
    let gone = || {
        let why = "its earlier pod is gone: it was deleted, or its node was lost";
        (replaced_before(lead.pod) > 0).then(|| why.to_owned())
    };
    let cause = outcome.map(|it| it.message).or_else(gone)?;
    Some(format!("the lead was replaced, and jobs that are in no archive are lost: {cause}"))
}
