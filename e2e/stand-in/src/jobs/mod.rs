//! Jobs: what they are, where they fit, and how their tasks run.

pub(crate) mod job;
pub(crate) mod jobspec;
pub(crate) mod manager;
mod schedule;
pub(crate) mod task;
