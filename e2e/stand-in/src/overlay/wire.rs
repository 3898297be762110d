//! What brokers say to each other. Real Flux speaks its own messages here: a stand-in and a real
//! broker can finish the CURVE handshake, and no more.

use serde::{Deserialize, Serialize};

use crate::broker::state::State;
use crate::config::Config;
use crate::jobs::task::{Happened, Order};
use crate::protocol::{Reply, Request};

/// From a worker to the lead.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Upward {
    /// The first message: rank and name that the sender has by its own configuration.
    Hello(u32, String),
    /// The connection is there again.
    Back,
    /// Asks for the leader's configuration.
    ConfigWanted,
    /// rc1 is done.
    Online {
        /// It has less than is configured, and runs no jobs.
        drained: bool,
    },
    /// Leaving in good order.
    Goodbye,
    /// What happened to a task of a job.
    Task(u64, u32, Happened),
    /// A client's request that only rank 0 can answer, with a number chosen by the sender.
    Request(u64, Request),
    /// That client has gone.
    RequestGone(u64),
}

/// From the lead to a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Downward {
    /// The hello was accepted.
    Welcome,
    /// The hello was refused, and why.
    Refused(String),
    /// The sender does not know this worker, or wants it gone.
    Disconnect,
    /// The parent's state.
    State(State),
    /// The leader's configuration.
    Config(Box<Config>),
    /// Answer to a goodbye.
    GoodbyeAnswer,
    /// What the job manager wants of the worker.
    Order(Order),
    /// Part of the answer to a request.
    Reply(u64, Reply),
}
