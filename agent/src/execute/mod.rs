//! Does what a plan says, step by step, and what a step needs for it: who the broker runs as, its
//! environment, the user's hooks. No step decides anything that the plan could have decided.

pub(crate) mod hook;
pub(crate) mod session;
pub(crate) mod steps;
pub(crate) mod working_directory;
