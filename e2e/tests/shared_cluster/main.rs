//! Tests that share a running cluster. Each test makes a namespace of its own, applies what a user would apply, waits for
//! conditions with deadlines, and keeps the evidence when it fails.
//!
//! Run by `cargo verify`, or alone: `cargo test -p e2e --test shared_cluster -- --ignored`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests, helpers included")]

mod alerts;
mod attacks;
mod autoscale;
mod clients;
mod cores;
mod cost;
mod examples;
mod forward;
mod gpus;
mod idle;
mod install;
mod lead;
mod lead_service_lost;
mod metrics;
mod mpi;
mod names;
mod once;
mod pages;
mod plugin;
mod plugin_files;
mod plugin_inside;
mod plugin_terminal;
mod queues;
mod quiet_events;
mod refusals;
mod replace;
mod rest;
mod restful;
mod result;
mod runs;
mod scale_down;
mod secrets;
mod stop;
mod storage;
mod suspend;
mod trace;
mod ui;
mod without_python;

use e2e::prelude::*;

/// What most of these tests use.
mod prelude {
    pub(crate) use crate::{lacks_real_flux, succeeds, trial, with_our_images, with_real_flux};
    pub(crate) use e2e::prelude::*;
}

/// Runs `body` in a namespace of its own.
fn trial(purpose: &str, body: impl AsyncFnOnce(&Trial) -> Result<()> + Send) {
    succeeds(|environment| environment.trial(purpose, body));
}

/// Whether there is no real Flux; if so, notes that `what` is not run.
fn lacks_real_flux(what: &str, why: &str) -> Result<bool> {
    let lacks = !View::from_environment()?.is_real();
    if lacks {
        notes::not_run(what, why);
    }
    Ok(lacks)
}

/// Runs `body` in a namespace of its own if there is real Flux.
fn with_real_flux(
    purpose: &str,
    what: &str,
    why: &str,
    body: impl AsyncFnOnce(&Trial) -> Result<()> + Send,
) {
    trial(
        purpose,
        async |trial| if lacks_real_flux(what, why)? { Ok(()) } else { body(trial).await },
    );
}

/// [`with_real_flux`] with images that are in no registry, which only clusters of ours have.
fn with_our_images(purpose: &str, what: &str, body: impl AsyncFnOnce(&Trial) -> Result<()> + Send) {
    succeeds(|environment| {
        if lacks_real_flux(what, "it needs real Flux")? {
            return Ok(());
        }
        if !environment.is_own() {
            notes::not_run(
                what,
                "its image, which is in no registry, is made for clusters of ours only",
            );
            return Ok(());
        }
        environment.trial(purpose, body)
    });
}

/// Runs `body` on the environment that all tests share, and panics with its error.
fn succeeds(body: impl FnOnce(&Environment) -> Result<()>) {
    if let Err(error) = Environment::shared().and_then(body) {
        panic!("{error:#}");
    }
}
