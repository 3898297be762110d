//! `flux-rest`, the real program, with a recorded broker behind it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod access;
#[path = "../../../agent/tests/it/pod/broker.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests of the agent use the rest of it")]
mod broker;
mod browser;
mod instance;
mod page;
mod restful;
mod schema;
mod serve;
mod server;
mod tls;
mod v1;
