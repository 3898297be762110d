//! `kubectl flux` as a process, against the simulated API server and what goes wrong on the way to it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends where something is not as it expects"
)]

mod exec;
mod explain;
mod logs;
mod pipe;
mod process;
mod run;
mod scene;
