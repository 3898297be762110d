//! What only a running cluster can show. Each test makes a namespace of its own, applies what a user
//! would apply, waits for conditions with deadlines, and shows everything when it fails.
//!
//! Run by `cargo verify`, or alone: `cargo test -p e2e --test cluster -- --ignored`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests, helpers included")]

mod attacks;
mod autoscaler;
mod clients;
mod cost;
mod examples;
mod expiry;
mod faults;
mod go_bugs;
mod hostile;
mod install;
mod leave;
mod life;
mod namespaced;
mod pages;
mod pods;
mod private;
mod quiet_events;
mod refusals;
mod replace;
mod runs;
mod secrets;
mod stop;
mod suspend;
mod why;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::{
    environment::Environment,
    progress::Progress,
    trial::{Trial, condition, is_true, logs::container_log, minicluster},
    wait,
};
use flux_operator::crd::{MiniCluster, MiniClusterStatus};
use k8s_openapi::api::core::v1::Pod;
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

/// Applies a MiniCluster of this specification.
async fn apply(trial: &Trial, name: &str, spec: &str) -> Result<String> {
    trial.apply(&minicluster(name, spec)).await
}

/// Waits until the MiniCluster has ended, and ended well.
async fn complete(trial: &Trial, name: &str) -> Result<MiniCluster> {
    let cluster = trial.await_finished(name, DEADLINE).await?;
    ensure!(is_true(&cluster, "Complete"), "{name}: {:?}", cluster.status);
    Ok(cluster)
}

/// Exit code, and reason and message of the failure.
fn failure(cluster: &MiniCluster) -> Result<(Option<i32>, &str, &str)> {
    ensure!(is_true(cluster, "Failed"), "conditions: {:?}", cluster.status);
    let (_, reason, message) = condition(cluster, "Failed").context("no Failed condition")?;
    Ok((cluster.status.as_ref().and_then(|status| status.exit_code), reason, message))
}

/// Waits until `look` has what it looks for.
async fn until<T>(what: &str, look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    wait::until_found(what, DEADLINE, look).await
}

/// Waits until the status fits.
async fn await_status(
    trial: &Trial,
    name: &str,
    what: &str,
    fits: impl Fn(&MiniClusterStatus) -> bool + Send + Sync,
) -> Result<MiniCluster> {
    let fits = |cluster: Option<&MiniCluster>| {
        cluster.and_then(|cluster| cluster.status.as_ref()).is_some_and(&fits)
    };
    trial.await_minicluster(name, what, DEADLINE, fits).await
}

/// The pod of the lead.
async fn lead(trial: &Trial, name: &str) -> Result<Pod> {
    trial.pod(name, 0).await?.with_context(|| format!("{name} has no lead pod"))
}

/// Waits until the MiniCluster is ready, and returns the name of its lead's pod.
async fn ready_lead(trial: &Trial, name: &str) -> Result<String> {
    let ready = |cluster: Option<&MiniCluster>| cluster.is_some_and(|it| is_true(it, "Ready"));
    trial.await_minicluster(name, "ready", DEADLINE, ready).await?;
    Ok(lead(trial, name).await?.name_any())
}

/// What kubectl prints, given these words.
fn kubectl(words: &[&str]) -> Result<String> {
    Environment::shared(&Progress::new())?.kubectl(words)
}

/// What `words` print in a container of a pod.
fn exec(trial: &Trial, pod: &str, container: &str, words: &[&str]) -> Result<String> {
    let into = ["exec", pod, "--namespace", trial.namespace(), "--container", container, "--"];
    kubectl(&[&into[..], words].concat())
}

async fn lead_log(trial: &Trial, name: &str) -> Result<String> {
    container_log(trial, &lead(trial, name).await?, name).await
}
