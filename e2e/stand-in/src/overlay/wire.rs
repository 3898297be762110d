//! What brokers say to each other. Real Flux speaks its own messages here: a stand-in and a real
//! broker can finish the CURVE handshake, and no more.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::broker::log::Line;
use crate::broker::state::State;
use crate::jobs::task::{Report, TaskOrder, WriteOrder};
use crate::protocol::{Reply, Request};

/// Version of Flux that is stood in for.
pub(crate) const VERSION: (u8, u8, u8) = (0, 88, 0);

/// From a worker to the lead.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Upward {
    /// The first message.
    Hello {
        /// Rank the sender has by its own configuration.
        rank: u32,
        /// Name it has.
        hostname: String,
        /// Version it is.
        version: (u8, u8, u8),
    },
    /// Nothing to say for a while.
    Heartbeat,
    /// Asks for the leader's configuration.
    ConfigWanted,
    /// rc1 is done; what hardware there is, and why it is drained if it is.
    Online {
        /// Core ids.
        cores: Vec<u32>,
        /// Reason to drain this rank.
        drain: Option<String>,
    },
    /// Leaving in good order.
    Goodbye,
    /// A log line for the leader.
    Log(Line),
    /// News of a task.
    Task(Report),
    /// A client's request that only rank 0 can answer.
    Request {
        /// Chosen by the sender.
        id: u64,
        /// What is asked.
        request: Request,
    },
    /// That client has gone.
    RequestGone {
        /// The request's id.
        id: u64,
    },
}

/// From the lead to a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Downward {
    /// The hello was accepted.
    Welcome,
    /// The hello was refused.
    Refused {
        /// Why.
        reason: String,
    },
    /// The sender does not know this worker, or wants it gone.
    Disconnect,
    /// The parent's state.
    State(State),
    /// The leader's configuration.
    Config(Value),
    /// Answer to a goodbye.
    Farewell,
    /// Sent regularly; a link that cannot take it is lost.
    Heartbeat,
    /// Start a task.
    Start(Box<TaskOrder>),
    /// Signal the tasks of a job.
    Signal {
        /// The job.
        job: u64,
        /// Signal number.
        signal: i32,
    },
    /// Append to an output file of a job.
    Write(WriteOrder),
    /// Part of the answer to a request.
    Reply {
        /// The request's id.
        id: u64,
        /// The part.
        reply: Reply,
    },
}
