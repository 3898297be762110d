//! `flux-agent doctor`: checks what a pod needs, one thing after the other, and says for each that
//! is wrong what it means and what to do about it.

pub(crate) mod checks;
pub(crate) mod command;
