//! What the lead's command may be besides the user's own words: the submission of a command or of a batch script,
//! the diagnosis of an instance; and what Flux's shell asks about a job.

pub(crate) mod batch;
pub(crate) mod diagnose;
pub(crate) mod mpi;
pub(crate) mod submit;

pub use diagnose::QUESTIONS;
