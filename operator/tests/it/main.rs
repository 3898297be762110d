//! The operator with a simulated API server: whole reconciles, installation, pages.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod addresses;
mod again;
mod autoscale;
mod citizen;
mod command;
mod gang;
mod install;
mod installation;
mod leader;
mod memory;
mod pages;
mod pauses;
mod pods;
mod prelude;
mod reconcile;
mod render;
mod replaced;
mod restart;
mod rotation;
mod shared_names;
mod stages;
#[path = "../support/mod.rs"]
mod support;
mod waiting;
