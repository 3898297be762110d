//! Flux's small text forms: id sets, durations, job ids.

pub(crate) mod duration;
pub(crate) mod idset;
pub(crate) mod jobid;
