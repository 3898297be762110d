//! Schedulers that a cluster may have beside its own, and what they are asked for.

pub(super) mod gang;
pub(super) mod queue;
