//! The Flux Operator: turns `MiniCluster` resources into running Flux instances.
//!
//! A reconcile observes, decides, applies and reports; what is decided and the status are functions
//! of values.

#![cfg_attr(not(unix), allow(dead_code, reason = "`run`, which uses it, is left out"))]

pub mod admin;
pub mod cli;
pub mod cluster;
pub mod controller;
pub mod crd;
pub mod images;
pub mod leader;
pub mod metrics;
pub mod offline;
// `kubectl flux` is built for other systems, too, and takes no signals as the operator does.
#[cfg(unix)]
pub mod run;
