//! `demo`: from a fresh machine to the output of a MiniCluster, with one command.

use std::{fmt::Write as _, time::Duration};

use anyhow::{Context as _, Result, bail};
use flux_operator::crd::MiniCluster;
use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::ResourceExt as _;

use crate::{
    environment::Environment,
    product::checkout,
    progress::Progress,
    trial::{Trial, evidence::keep_evidence, is_true, logs::follow_lead},
};

/// The example that the demo runs.
const EXAMPLE: &str = "examples/hello-world/minicluster.yaml";
/// A lead that has not started by then will not start.
const START_DEADLINE: Duration = Duration::from_mins(10);
/// A hello-world that has started is over long before.
const FINISH_DEADLINE: Duration = Duration::from_mins(2);

/// Runs the hello-world example in `environment` and shows what happens.
pub fn demo(environment: &Environment, progress: &Progress) -> Result<()> {
    let path = checkout()?.join(EXAMPLE);
    let manifest = std::fs::read_to_string(&path)
        .with_context(|| format!("reading the example {}", path.display()))?;
    environment.run(async |client| {
        let trial = Trial::begin(&environment.cluster, &client, "flux-demo", &[]).await?;
        match show(&trial, &manifest, environment, progress).await {
            Err(error) => bail!("{error:#}\n{}", keep_evidence(&trial).await),
            shown => shown,
        }
    })
}

async fn show(
    trial: &Trial,
    manifest: &str,
    environment: &Environment,
    progress: &Progress,
) -> Result<()> {
    progress.say(&format!("applying {EXAMPLE} in the namespace {}:", trial.namespace()));
    progress.say(&indented(manifest));
    let applied = Timestamp::now();
    let name = trial.apply(manifest).await?;
    progress.say("following the log of the lead:");
    follow_lead(trial, &name, START_DEADLINE, |line| progress.say(&format!("  | {line}"))).await?;
    let cluster = trial.await_finished(&name, FINISH_DEADLINE).await?;
    let pods = trial.pods(&name).await?;
    progress.say(&format!("where the time went:\n{}", account(applied, &cluster, &pods)));
    let listing = environment.kubectl(&["get", "minicluster", "--namespace", trial.namespace()])?;
    progress.say(&format!("kubectl get minicluster --namespace {}\n{listing}", trial.namespace()));
    if !is_true(&cluster, "Complete") {
        bail!("the MiniCluster {name} did not complete");
    }
    progress.say(&environment.next_steps(trial.namespace()));
    Ok(())
}

fn indented(text: &str) -> String {
    text.lines().fold(String::new(), |mut all, line| {
        // Writing to a String cannot fail.
        let _ = writeln!(all, "    {line}");
        all
    })
}

/// A table of the run's phases: seconds since the manifest was applied, and what was reached then.
///
/// Kubernetes keeps whole seconds; the agent's phases are exact.
fn account(applied: Timestamp, cluster: &MiniCluster, pods: &[Pod]) -> String {
    let mut rows: Vec<(f64, String)> = Vec::new();
    let since = |at: Timestamp| at.duration_since(applied).as_secs_f64().max(0.0);
    if let Some(lead) = pods.iter().find(|pod| pod.name_any().contains("-0-")) {
        for (what, at) in pod_times(lead) {
            rows.push((since(at), format!("lead: {what}")));
        }
    }
    if let Some(end) = cluster.status.as_ref().and_then(|status| status.completion_time.as_ref()) {
        rows.push((since(end.0), "MiniCluster: finished".to_owned()));
    }
    rows.sort_by(|left, right| left.0.total_cmp(&right.0));
    let mut table = String::new();
    for (seconds, what) in rows {
        let _ = writeln!(table, "  {seconds:>7.1} s  {what}");
    }
    for phase in cluster.status.iter().flat_map(|status| &status.timeline) {
        let took = phase.duration_milliseconds.unsigned_abs();
        let took = Duration::from_millis(took).as_secs_f64();
        let _ = writeln!(table, "  took {took:>6.3} s  agent of the lead: {}", phase.name);
    }
    table
}

/// When the parts of a pod were reached, as far as its status says.
fn pod_times(pod: &Pod) -> Vec<(String, Timestamp)> {
    let Some(status) = &pod.status else { return vec![] };
    let mut times = Vec::new();
    for condition in status.conditions.iter().flatten() {
        if condition.type_ == "PodScheduled"
            && let Some(at) = &condition.last_transition_time
        {
            times.push(("scheduled".to_owned(), at.0));
        }
    }
    let init = status.init_container_statuses.iter().flatten();
    for container in init.chain(status.container_statuses.iter().flatten()) {
        let state = container.state.as_ref().and_then(|state| state.terminated.as_ref());
        if let Some(started) = state.and_then(|state| state.started_at.as_ref()) {
            times.push((format!("{} started", container.name), started.0));
        }
        if let Some(finished) = state.and_then(|state| state.finished_at.as_ref()) {
            times.push((format!("{} ended", container.name), finished.0));
        }
    }
    times
}
