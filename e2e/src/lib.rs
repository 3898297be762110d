//! The harness behind the project's tests on a real cluster.
//!
//! [`cluster`] gives a cluster: one of our own on this machine ([`kubernetes`]), or any other. [`images`] makes
//! container images without a registry. The [`cache`] keeps what takes long to make.
#![expect(missing_docs, reason = "only tests use this, and most names need no comment")]

pub mod audit;
mod cli;
pub mod cluster;
pub mod commands;
mod demo;
pub mod environment;
pub mod examples;
pub mod interruption;
pub mod notes;
pub mod operator_process;
pub mod prelude;
pub mod product;
pub mod schedulers;
pub mod trial;
pub mod verify;

pub use e2e_kubernetes::{
    architecture, cache, images, kubernetes, packages, programs, progress, wait,
};
