//! `flux-agent serve`: the HTTP API of one instance, and its page. Everything is asked of the broker on its own socket,
//! as Flux's user; a request has a connection of its own to the broker, which ends with it.
//!
//! `call` and `query` say what a request asks for, `submission`, `job`, `listing` and `metrics` decide over
//! values; `server` listens and keeps the bounds, `dispatch` asks.

mod answer;
mod call;
pub(crate) mod context;
mod dispatch;
mod feed;
mod instance;
mod job;
mod job_stream;
mod listing;
mod metrics;
mod query;
pub(crate) mod server;
pub(crate) mod submission;
pub(crate) mod token;
