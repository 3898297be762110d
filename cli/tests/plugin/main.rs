//! `kubectl flux` as a process, against the simulated API server and what goes wrong on the way to it.
#![cfg(unix)] // Tests send signals. Windows has the unit tests.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends where something is not as it expects"
)]

mod burst;
mod completion;
mod connection;
mod delete;
mod exec;
mod explain;
mod list;
mod logs;
mod names;
mod pipe;
mod process;
mod report;
mod resubmit;
mod run;
mod scene;
mod version;
mod wait;
