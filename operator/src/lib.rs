//! The Flux Operator: turns `MiniCluster` resources into running Flux instances.
//!
//! A reconcile observes, decides, applies and reports; what is decided and the status are functions
//! of values.

pub mod admin;
pub mod cli;
pub mod cluster;
pub mod controller;
pub mod crd;
pub mod images;
pub mod leader;
pub mod metrics;
pub mod offline;
pub mod run;
