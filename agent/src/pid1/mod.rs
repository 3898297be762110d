//! The first process of a pod: a run from its configuration to its exit code, the broker as its child, the archive, and the
//! containers beside the runner.

pub(crate) mod archive;
mod checkpoint;
pub(crate) mod command;
pub(crate) mod deadline;
pub(crate) mod outcome;
pub(crate) mod rest;
pub(crate) mod run;
pub(crate) mod sidecar;
pub(crate) mod state_machine;
pub(crate) mod supervise;
