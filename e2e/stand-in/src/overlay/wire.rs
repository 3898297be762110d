//! Messages between brokers. Real Flux has others: a stand-in and a real broker can finish the CURVE handshake, and no
//! more.

use crate::broker::state::State;
use crate::jobs::task::{Happened, Order};
use crate::protocol::{Reply, Request};
use serde::{Deserialize, Serialize};

/// From a worker to the lead.
#[derive(Serialize, Deserialize)]
pub(crate) enum Upward {
    /// The first message: rank and name that the sender has by its own configuration, and its release.
    Hello(u32, String, String),
    /// The connection was made again.
    Back,
    /// rc1 is done.
    Online,
    Goodbye,
    Task(u64, u32, Happened),
    /// A client's request that only rank 0 can answer, with a number chosen by the sender.
    Request(u64, Request),
}

/// From the lead to a worker.
#[derive(Serialize, Deserialize)]
pub(crate) enum Downward {
    /// The hello was refused, or the sender wants the worker gone: why.
    Failed(String),
    /// The state of the sender. The first one accepts the hello.
    State(State),
    GoodbyeAnswer,
    Order(Order),
    Reply(u64, Reply),
}
