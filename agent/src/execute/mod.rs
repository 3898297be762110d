//! Performs what a plan decides, and keeps what a step needs for it: the user of the broker, its environment, the user's
//! hooks. No step decides anything that the plan could have decided.

pub(crate) mod hook;
pub(crate) mod run;
pub(crate) mod session;
pub(crate) mod steps;
pub(crate) mod working_directory;
