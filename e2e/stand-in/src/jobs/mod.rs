//! Jobs: what is asked for, where it fits, how tasks run, and who gets their events.

pub(crate) mod job;
pub(crate) mod manager;
pub(crate) mod queries;
pub(crate) mod schedule;
pub(crate) mod spec;
pub(crate) mod task;
