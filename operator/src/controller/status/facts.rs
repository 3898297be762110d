//! The input of the status.

use crate::controller::decide::Plan;
use crate::controller::error::Error;
use crate::controller::job_ext::noted_generation;
use crate::controller::observe::Observed;
use crate::controller::observe::lifecycle::{End, Lifecycle};
use flux_api::crd::State;

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

    /// The generation of the specification that the run was started with, if there is a run.
    pub(super) fn generation(&self) -> i64 {
        let noted = self.live.job.as_ref().and_then(noted_generation);
        let ended = self.live.lifecycle.record().map(|run| run.generation);
        noted.or(ended).unwrap_or(self.plan.generation)
    }
}
