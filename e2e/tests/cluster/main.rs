//! What only a running cluster can show. Each test makes a namespace of its own, applies what a user
//! would apply, waits for conditions with deadlines, and shows everything when it fails.
//!
//! Run by `cargo verify`, or alone: `cargo test -p e2e --test cluster -- --ignored`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests, helpers included")]

mod clients;
mod examples;
mod go_bugs;
mod hostile;
mod install;
mod life;
mod namespaced;
mod pages;
mod pods;
mod private;
mod quiet_events;
mod refusals;
mod runs;
mod secrets;
mod security;
mod stop;
mod why;

use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::{
    environment::Environment,
    progress::Progress,
    trial::{Trial, is_true, pod_logs},
};
use flux_operator::crd::MiniCluster;
use kube::ResourceExt as _;

/// A MiniCluster that has everything it needs is done long before.
const DEADLINE: Duration = Duration::from_mins(3);

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

fn minicluster(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

/// Waits until the MiniCluster is ready, and returns the name of its lead's pod.
async fn ready_lead(trial: &Trial, name: &str) -> Result<String> {
    let ready = |cluster: Option<&MiniCluster>| cluster.is_some_and(|c| is_true(c, "Ready"));
    trial.await_minicluster(name, "ready", DEADLINE, ready).await?;
    let pods = trial.pods(name).await?;
    let lead = pods
        .iter()
        .map(kube::ResourceExt::name_any)
        .find(|pod| pod.starts_with(&format!("{name}-0-")));
    lead.with_context(|| format!("{name} has no lead pod"))
}

/// What `words` print in a container of a pod.
fn exec(trial: &Trial, pod: &str, container: &str, words: &[&str]) -> Result<String> {
    let into = ["exec", pod, "--namespace", trial.namespace(), "--container", container, "--"];
    Environment::shared(&Progress::new())?.kubectl(&[&into[..], words].concat())
}

async fn lead_log(trial: &Trial, name: &str) -> Result<String> {
    let pods = trial.pods(name).await?;
    let lead = pods
        .iter()
        .find(|pod| pod.name_any().starts_with(&format!("{name}-0-")))
        .with_context(|| format!("{name} has no lead pod"))?;
    let logs = pod_logs(trial, lead).await;
    let log = logs.into_iter().find(|(container, _)| container == name);
    Ok(log.with_context(|| format!("the lead of {name} has no runner"))?.1)
}
