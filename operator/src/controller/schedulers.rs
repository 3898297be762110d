//! Schedulers that a cluster may have beside its own: what they are asked for, and what they say.

pub(super) mod gang;
pub(super) mod queue;
pub(super) mod workloads;
