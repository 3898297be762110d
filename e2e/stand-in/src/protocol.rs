//! What the stand-in's commands say to its broker over the local socket, once it has let them in:
//! one request per connection, one JSON document per line. Real Flux has a protocol of its own
//! there, of which the broker knows the questions in `broker/message.rs`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::jobs::spec::{JobSpec, Scope};
use crate::output::Stream;

/// A request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Value of an attribute.
    Attribute(String),
    /// State of this broker.
    State,
    /// State of the lead.
    LeadState,
    /// Stop the instance.
    Shutdown,
    /// New job.
    Submit(Box<JobSpec>),
    /// The end of a job, and its output before where that is wanted.
    Watch {
        /// The job.
        id: u64,
        /// Whether output is wanted.
        output: bool,
    },
    /// A signal for the tasks of a job.
    Kill(u64, i32),
    /// Result of the waitable job that ends next, taken once.
    Wait(Scope),
    /// All jobs.
    Jobs(Scope),
    /// The events of a job and of its execution.
    Eventlog(u64),
    /// Answered when there are no running jobs, with the number of pending ones.
    Idle(Scope),
    /// How many jobs have not ended.
    ActiveJobs,
    /// Registers the cleanup after the initial program.
    Cleanup,
    /// The resources and what is free of them.
    Resources,
    /// Give ranks no more jobs, for a reason.
    Drain(BTreeSet<u32>, String),
    /// Give ranks jobs again.
    Undrain(BTreeSet<u32>),
    /// Which ranks are drained, and why.
    Drained,
    /// The jobs that run on one of these ranks, at most so many.
    RunningOn(BTreeSet<u32>, usize),
}

/// Part of an answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// Task output; more follows.
    Output(Stream, String),
    /// The answer.
    Done(Value),
    /// There is none: why, and the exit code for the command.
    Failed(String, u8),
}

impl Reply {
    /// A failure with exit code 1.
    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(reason.into(), 1)
    }

    /// Whether nothing follows.
    pub(crate) fn is_last(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Failed(..))
    }
}

impl Request {
    /// Whether the broker one is connected to answers by itself, in every state.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Attribute(_) | Self::State | Self::Shutdown)
    }

    /// Whether guests may ask this.
    pub(crate) fn is_for_guests(&self) -> bool {
        matches!(
            self,
            Self::Attribute(_) | Self::State | Self::LeadState | Self::Jobs(_) | Self::Resources
        )
    }
}
