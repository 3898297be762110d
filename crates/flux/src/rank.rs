//! A rank of an instance: whether its broker is there, and what it has.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A rank at one moment.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RankStatus {
    /// The number of the rank.
    pub rank: u32,
    /// The broker of the rank is part of the instance.
    pub up: bool,
    /// Cores that Flux schedules.
    pub cores: usize,
    /// Cores that jobs have.
    pub cores_allocated: usize,
    /// GPUs that Flux schedules.
    pub gpus: usize,
    /// GPUs that jobs have.
    pub gpus_allocated: usize,
    /// Why the rank gets no more jobs, if it is drained. Flux asks for no reason: the text may be empty.
    pub drained: Option<String>,
}

impl RankStatus {
    /// Flux may give jobs to the rank.
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
