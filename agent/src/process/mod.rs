//! Processes of PID 1: children, orphans, signals, the terminal, panics, exit codes. Nothing here depends on Flux.

pub(crate) mod children;
pub(crate) mod exit_status;
pub(crate) mod orphans;
pub(crate) mod panic_hook;
pub(crate) mod signals;
pub(crate) mod terminal;

pub use children::{Children, Running};
