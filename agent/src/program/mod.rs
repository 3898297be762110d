//! What runs below the lead's broker as its initial program: the wrapper that records how the command
//! ended, what is left to be cleaned up then, the submission of a batch script, the diagnosis of an instance.

pub(crate) mod batch;
pub(crate) mod cleanup;
pub(crate) mod diagnose;
pub(crate) mod record;
pub(crate) mod refusal;
pub(crate) mod wrapper;

pub use diagnose::QUESTIONS;
