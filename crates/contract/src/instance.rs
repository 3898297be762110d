//! What an instance of Flux has and does: the answer of `flux-agent instance`, which `kubectl flux` shows.

use crate::agent_config::is_default;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::fmt;

/// An instance at one moment.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceReport {
    /// Its ranks, in order.
    pub ranks: Vec<RankReport>,
    /// Its jobs: those that run, those that wait, and, where that was asked for, those that have ended.
    pub jobs: Vec<JobReport>,
    /// What a job has printed last, where that was asked for.
    pub output: Option<String>,
    /// Whether it has printed more before that.
    #[serde(default, skip_serializing_if = "is_default")]
    pub output_is_cut: bool,
}

/// A rank: a broker and what it has.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RankReport {
    /// Its number.
    pub rank: u32,
    /// Whether its broker is part of the instance.
    pub up: bool,
    /// Cores that Flux schedules.
    pub cores: usize,
    /// Those of them that jobs have.
    pub cores_allocated: usize,
    /// GPUs that Flux schedules.
    pub gpus: usize,
    /// Those of them that jobs have.
    pub gpus_allocated: usize,
    /// Why it gets no more jobs, if it is drained. A reason need not be given.
    pub drained: Option<String>,
}

impl RankReport {
    /// Whether jobs can be given to it.
    pub const fn is_usable(&self) -> bool {
        self.up && self.drained.is_none()
    }

    /// Cores for the next job.
    pub const fn cores_free(&self) -> usize {
        if self.is_usable() { self.cores.saturating_sub(self.cores_allocated) } else { 0 }
    }

    /// GPUs for the next job.
    pub const fn gpus_free(&self) -> usize {
        if self.is_usable() { self.gpus.saturating_sub(self.gpus_allocated) } else { 0 }
    }
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
    pub state: JobState,
    /// How many tasks it has.
    pub tasks: u64,
    /// On how many ranks it runs or has run.
    pub nodes: Option<u64>,
    /// Which these are.
    pub ranks: Option<String>,
    /// How long it has run, or waits, in seconds.
    pub seconds: f64,
}

/// State of a job as Flux calls it (RFC 21), and of one that has ended its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum JobState {
    /// It is new, or waits for other jobs or for its priority.
    Depend,
    /// It waits for resources.
    Sched,
    /// It runs.
    Run,
    /// It has run, and its resources are made free.
    Cleanup,
    /// It has ended well.
    Completed,
    /// It has failed.
    Failed,
    /// It was cancelled.
    Canceled,
    /// It had no more time.
    Timeout,
}

impl JobState {
    /// Whether it has not ended.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Depend | Self::Sched | Self::Run | Self::Cleanup)
    }

    /// Whether it waits to run.
    pub const fn is_pending(self) -> bool {
        matches!(self, Self::Depend | Self::Sched)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Depend => "DEPEND",
            Self::Sched => "SCHED",
            Self::Run => "RUN",
            Self::Cleanup => "CLEANUP",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Canceled => "CANCELED",
            Self::Timeout => "TIMEOUT",
        })
    }
}
