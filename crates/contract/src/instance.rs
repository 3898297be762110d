//! The ranks and jobs of an instance: the answer of `flux-agent instance`, which `kubectl flux` shows.

use crate::agent_config::is_default;
use flux_protocol::RankStatus;
use flux_protocol::job::JobStatus;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// An instance at one moment.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceReport {
    /// Its ranks, in order.
    pub ranks: Vec<RankStatus>,
    /// Its running and waiting jobs, and, on request, those that have ended.
    pub jobs: Vec<JobReport>,
    /// On request, the last output of a job.
    pub output: Option<String>,
    /// Whether there was more output before that.
    #[serde(default, skip_serializing_if = "is_default")]
    pub output_is_cut: bool,
}

/// A job of Flux.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobReport {
    /// The id, as Flux prints it.
    pub id: String,
    /// The name of the user.
    pub user: String,
    /// Its name.
    pub name: String,
    /// The state, or the result.
    pub state: JobStatus,
    /// The number of tasks.
    pub tasks: u64,
    /// The number of ranks that it has or had.
    pub nodes: Option<u64>,
    /// These ranks, as an idset.
    pub ranks: Option<String>,
    /// How long it has run or waited, in seconds.
    pub seconds: f64,
}
