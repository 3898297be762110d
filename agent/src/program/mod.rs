//! Programs that run below PID 1 or Flux: the submission of a command or a batch script, the diagnosis of an instance, and
//! the choice of a PMI for a job.

pub(crate) mod batch;
pub(crate) mod diagnose;
pub(crate) mod mpi;
pub(crate) mod submit;

pub use diagnose::QUESTIONS;
