//! The operator with a simulated API server: specifications, whole reconciles, installation, generated pages.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod autoscale;
mod bounds;
mod build;
mod changes;
mod citizen;
mod command;
mod crd;
mod every_field;
mod gang;
mod go_examples;
mod held;
mod install;
mod installation;
mod leader;
mod memory;
mod pauses;
mod pods;
mod properties;
mod reconcile;
mod reference;
mod renders;
mod replaced;
mod shared_names;
mod simulation;
mod stages;
#[path = "../support/mod.rs"]
mod support;
mod validate;
mod waiting;
