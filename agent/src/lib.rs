//! The in-pod agent of the Flux Operator.
//!
//! The `mod.rs` of each folder has its purpose. Items are `pub` for the binary, and for tests that drive a part of the
//! crate from outside.

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
