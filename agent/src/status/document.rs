//! The report of PID 1 in its file, as JSON.

use crate::status::timing::milliseconds;
use flux_contract::Phase;
use flux_contract::demand::Demand;
use flux_contract::obstacle::Obstacle;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use tokio::time::Instant;

/// What a run is doing.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    /// The phase that runs, as in [`Phase::name`].
    pub phase: String,
    /// What it does just now, as the name of the hook that runs.
    pub doing: Option<String>,
    /// `lead` or `worker`.
    pub role: String,
    /// Host name of the pod.
    pub hostname: String,
    /// Rank of the broker, once it is known.
    pub rank: Option<u32>,
    /// State the broker itself reports (`join`, `quorum`, `run`, ...), once it answers.
    pub broker_state: Option<String>,
    /// Who loads the broker's modules and removes them: `flux-agent`, or `flux` and why the agent does not.
    pub modules_loaded_by: Option<String>,
    /// What this release of Flux lacks that the MiniCluster asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// True when this rank's broker is part of the instance.
    #[serde(default)]
    pub online: bool,
    /// True when the pod is ready: a worker when it is online, the lead at quorum. It stays so while the broker ends.
    #[serde(default)]
    pub ready: bool,
    /// True when the run is over, so that nothing of this will change any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over: bool,
    /// How many pods the jobs of the instance need, where the operator asks for that.
    pub demand: Option<Demand>,
    /// What keeps the broker of a worker from joining the lead.
    pub obstacle: Option<Obstacle>,
    /// How many times the broker was started again.
    #[serde(default)]
    pub restarts: u32,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// Where the time went so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// When the phase that runs began, the last of `phases`: each report counts it up to then.
    #[serde(skip)]
    pub since: Option<Instant>,
}

impl StatusReport {
    /// All phases; the one that runs ends `now`.
    pub(crate) fn phases_until(&self, now: Instant) -> Vec<Phase> {
        let mut phases = self.phases.clone();
        if let (Some(since), Some(phase)) = (self.since, phases.last_mut()) {
            phase.duration_milliseconds = milliseconds(now - since);
        }
        phases
    }
}
