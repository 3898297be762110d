//! The Flux Operator: turns `MiniCluster` resources into running Flux instances.
//!
//! A reconcile observes, decides, applies and reports. The decision and the status are functions of values.

pub mod admin;
pub mod cli;
pub mod controller;
pub mod leader;
pub mod metrics;
pub mod ping;
pub mod run;
