//! What only a running cluster can show. Each test makes a namespace of its own, applies what a user
//! would apply, waits for conditions with deadlines, and shows everything when it fails.
//!
//! Run by `cargo verify`, or alone: `cargo test -p e2e --test cluster -- --ignored`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests, helpers included")]

mod attacks;
mod clients;
mod cost;
mod examples;
mod hostile;
mod install;
mod lead;
mod leave;
mod life;
mod pages;
mod quiet_events;
mod refusals;
mod replace;
mod runs;
mod secrets;
mod stop;
mod storage;
mod suspend;
mod way;

use anyhow::Result;
use e2e::{
    environment::Environment,
    progress::Progress,
    trial::{
        Trial,
        instance::{DEADLINE, Instance, specification},
    },
};

/// Runs `body` in a namespace of its own, on the environment that all tests share.
fn trial(
    purpose: &str,
    labels: &[(&str, &str)],
    body: impl AsyncFnOnce(&Trial) -> Result<()> + Send,
) {
    let progress = Progress::new();
    let environment = Environment::shared(&progress).unwrap();
    if let Err(error) = environment.trial(purpose, labels, body) {
        panic!("{error:#}");
    }
}

/// Applies a MiniCluster of this specification.
async fn apply<'run>(trial: &'run Trial, name: &'run str, spec: &str) -> Result<Instance<'run>> {
    let environment = Environment::shared(&Progress::new())?;
    let instance = Instance::named(environment, trial, name);
    instance.apply(spec).await?;
    Ok(instance)
}

/// Applies a MiniCluster with these fields, whose only container has the usual image and `container`.
async fn run<'run>(
    trial: &'run Trial,
    name: &'run str,
    fields: &str,
    container: &str,
) -> Result<Instance<'run>> {
    apply(trial, name, &specification(&[fields], container)).await
}

/// What kubectl prints, given these words.
fn kubectl(words: &[&str]) -> Result<String> {
    Environment::shared(&Progress::new())?.kubectl(words)
}
