//! The harness behind the project's tests on a real cluster.
//!
//! [`cluster`] gives a cluster: one of our own on this machine ([`kubernetes`]), or any other. [`images`] makes
//! container images without a registry. What takes long is made once and kept in the [`cache`].

pub mod architecture;
pub mod audit;
pub mod bench;
pub mod cache;
pub mod cli;
pub mod cluster;
pub mod demo;
pub mod environment;
pub mod examples;
pub mod images;
pub mod interruption;
pub mod kubernetes;
pub mod kueue;
pub mod not_run;
pub mod packages;
pub mod product;
pub mod programs;
pub mod progress;
pub mod scheduler_plugins;
pub mod trial;
pub mod verify;
pub mod wait;
