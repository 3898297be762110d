//! Processes as PID 1 has them: starting and reaping children, taking and sending signals, ending what
//! is left, the terminal, deadlines, panics, exit codes. Nothing here knows of Flux.

pub(crate) mod children;
pub(crate) mod exit_status;
pub(crate) mod orphans;
pub(crate) mod panic_hook;
pub(crate) mod signals;
pub(crate) mod terminal;

pub use children::{Children, Running};
