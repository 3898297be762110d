//! What the stand-in's commands say to its broker over the local socket, once it has let them in:
//! one request per connection, one JSON document per line. Real Flux has a protocol of its own
//! there, of which the broker knows the question for its state.

use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::broker::log::Line;
use crate::jobs::spec::JobSpec;
use crate::output::Stream;

/// A request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Value of an attribute.
    Attribute {
        /// Its name.
        name: String,
    },
    /// Change an attribute.
    SetAttribute {
        /// Its name.
        name: String,
        /// New value.
        value: String,
        /// Change it even if it is not meant to change.
        force: bool,
    },
    /// All attributes.
    Attributes,
    /// State of this broker.
    State,
    /// What `flux uptime` needs from rank 0.
    Summary,
    /// The overlay's health, at once or when it reaches a status.
    Overlay {
        /// Status to wait for.
        wait: Option<String>,
    },
    /// Stop the instance.
    Shutdown {
        /// Do not follow the log.
        background: bool,
        /// Lowest severity to follow, 7 for everything.
        level: u8,
    },
    /// New job.
    Submit(Box<JobSpec>),
    /// Output and end of a job.
    Watch {
        /// The job.
        id: u64,
        /// Whether output is wanted, or only events and the end.
        output: bool,
    },
    /// Result of a waitable job, taken once.
    Wait {
        /// The job, or whichever ends next.
        id: Option<u64>,
        /// The batch job in which this is asked.
        scope: Option<u64>,
    },
    /// All jobs.
    Jobs {
        /// The batch job in which this is asked.
        scope: Option<u64>,
    },
    /// The events of a job and of its execution.
    Eventlog {
        /// The job.
        id: u64,
    },
    /// Raise an exception of type cancel, or signal.
    Cancel {
        /// The jobs; empty for all active ones of `user`.
        ids: Vec<u64>,
        /// User id of whoever asks.
        user: u32,
        /// The batch job in which this is asked.
        scope: Option<u64>,
    },
    /// Change or read the queue.
    Queue(QueueAction),
    /// Answered when there are no running jobs, with the number of pending ones.
    Idle {
        /// Also wait for pending jobs.
        drain: bool,
        /// The batch job in which this is asked.
        scope: Option<u64>,
    },
    /// The resources and what is used of them.
    Resources,
    /// Drain nodes.
    Drain {
        /// Ranks or hosts; none lists the drained.
        targets: Option<String>,
        /// Why.
        reason: String,
        /// Replace an older reason.
        force: bool,
    },
    /// Undrain nodes.
    Undrain {
        /// Ranks or hosts.
        targets: String,
    },
    /// Everything that a dump holds.
    Content,
}

/// What to do with the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum QueueAction {
    /// Only report.
    Status,
    /// Allow submission.
    Enable,
    /// Forbid submission.
    Disable,
    /// Allow allocation.
    Start,
    /// Forbid allocation.
    Stop,
}

/// Part of an answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reply {
    /// Task output; more follows.
    Output {
        /// Which stream.
        stream: Stream,
        /// Task rank.
        task: u32,
        /// Whole lines, or a last part without its newline.
        text: String,
    },
    /// A job event; more follows.
    Event {
        /// Seconds since submission.
        at: f64,
        /// Name, and what belongs to it.
        text: String,
    },
    /// A log line; more follows.
    Log(Line),
    /// The answer.
    Done(Value),
    /// There is none.
    Failed {
        /// Why.
        reason: String,
        /// Exit code for the command.
        code: u8,
        /// The error number behind the reason, which some commands print.
        errno: i32,
    },
}

impl Reply {
    /// A failure with exit code 1: something asked for is invalid.
    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self::refused(reason, Errno::EINVAL)
    }

    /// A failure with exit code 1 and an error number of its own.
    pub(crate) fn refused(reason: impl Into<String>, errno: Errno) -> Self {
        Self::Failed { reason: reason.into(), code: 1, errno: errno as i32 }
    }

    /// Whether nothing follows.
    pub(crate) fn is_last(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Failed { .. })
    }
}

impl Request {
    /// Whether the broker one is connected to answers by itself, in every state.
    pub(crate) fn is_local(&self) -> bool {
        matches!(
            self,
            Self::Attribute { .. }
                | Self::SetAttribute { .. }
                | Self::Attributes
                | Self::State
                | Self::Shutdown { .. }
        )
    }

    /// Whether only the instance owner may ask this.
    pub(crate) fn is_for_owner(&self) -> bool {
        !matches!(
            self,
            Self::Attribute { .. }
                | Self::Attributes
                | Self::State
                | Self::Summary
                | Self::Overlay { .. }
                | Self::Jobs { .. }
                | Self::Resources
                | Self::Queue(QueueAction::Status)
        )
    }
}
