//! The protocol of the stand-in's commands with its broker over the local socket: one request per connection, one JSON
//! document per line. Real Flux has another protocol, of which the broker knows the requests in `broker/message.rs`.

use crate::output::Stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The batch job in whose instance something is asked, none for the instance itself.
pub(crate) type Scope = Option<u64>;

/// Where the replies to a request go.
pub(crate) type Client = Box<dyn Fn(Reply) + Send>;

#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct JobSpec {
    /// Command and arguments; for a batch job, the arguments of its script.
    pub(crate) command: Vec<String>,
    pub(crate) script: Option<String>,
    /// Number of tasks; for a batch job, of slots.
    pub(crate) tasks: usize,
    pub(crate) nodes: Option<usize>,
    pub(crate) exclusive: bool,
    pub(crate) directory: String,
    pub(crate) environment: BTreeMap<String, String>,
    /// Whether its input ends at once; otherwise it stays open, and empty.
    pub(crate) no_input: bool,
    pub(crate) output: Option<String>,
    /// That of the output, unless it is asked for.
    pub(crate) error: Option<String>,
    pub(crate) waitable: bool,
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) user: u32,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Request {
    Attribute(String),
    State,
    LeadState,
    Submit(Box<JobSpec>),
    Wait(Wait),
    Kill(u64, i32),
    Jobs(Scope),
    /// The ids of so many jobs of the instance, the newest first.
    Newest(usize),
    /// How many jobs of the instance have not ended.
    ActiveJobs,
    Eventlog(u64),
    /// The host of a job's task.
    TaskHost(u64, usize),
    /// The jobs of the instance that have not ended, or all.
    List(bool),
    /// The cores of the ranks: of all, of those that are down, and those that jobs have.
    Allocated,
    /// Registers the cleanup that precedes a shutdown.
    Cleanup,
    Shutdown,
    /// How many cores are free on each rank that has any.
    Resources,
    /// Give a rank no more jobs, for a reason; or jobs again, without one.
    Drain(u32, Option<String>),
    Drained,
    /// The jobs that run on a rank, at most so many.
    RunningOn(u32, usize),
}

/// What a client waits for.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Wait {
    /// The end of a job, and its output before where that is wanted.
    End { id: u64, output: bool },
    /// The result of the waitable job that ends next, taken once.
    Result(Scope),
    /// That no job runs: then the number of pending ones.
    Idle(Scope),
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// Task output; more follows.
    Output(Stream, String),
    Done(Value),
    /// There is no answer: why, and the exit code for the command.
    Failed(String, u8),
}

impl Reply {
    pub(crate) fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(reason.into(), 1)
    }

    pub(crate) fn is_last(&self) -> bool {
        !matches!(self, Self::Output(..))
    }
}

impl Request {
    /// Whether the broker one is connected to answers by itself, in every state.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Attribute(_) | Self::State | Self::Shutdown)
    }
}
