//! What the lead's command may be besides the user's own words: the submission of a batch script, the
//! diagnosis of an instance.

pub(crate) mod batch;
pub(crate) mod diagnose;

pub use diagnose::QUESTIONS;
