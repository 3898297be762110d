//! The in-pod agent of the Flux Operator.
//!
//! Each folder is a room with one purpose, which its `mod.rs` says. What is `pub` there is for the
//! binary and for the tests that drive a part from outside; everything else is the crate's own.

pub mod accounts;
pub mod commands;
mod execute;
mod failure;
pub mod flux;
pub mod lead;
pub mod linking;
mod pid1;
pub mod plan;
pub mod process;
pub mod program;
mod rc;
pub mod status;
pub mod system;
pub mod view;
