//! What an instance of Flux has and does: the answer of `flux-agent instance`, which `kubectl flux` shows.

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
    /// Its jobs: those that run, those that wait, and, where that was asked for, those that have ended.
    pub jobs: Vec<JobReport>,
    /// What a job has printed last, where that was asked for.
    pub output: Option<String>,
    /// Whether it has printed more before that.
    #[serde(default, skip_serializing_if = "is_default")]
    pub output_is_cut: bool,
}

/// A job of Flux.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobReport {
    /// Its id as Flux prints it.
    pub id: String,
    /// Whose it is.
    pub user: String,
    /// Its name.
    pub name: String,
    /// What it does, or how it has ended.
    pub state: JobStatus,
    /// How many tasks it has.
    pub tasks: u64,
    /// On how many ranks it runs or has run.
    pub nodes: Option<u64>,
    /// Which these are.
    pub ranks: Option<String>,
    /// How long it has run, or waits, in seconds.
    pub seconds: f64,
}
