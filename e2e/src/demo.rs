//! `demo`: from a fresh machine to the output of a MiniCluster, with one command.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use flux_operator::crd::MiniCluster;
use k8s_openapi::jiff::Timestamp;

use crate::{
    environment::Environment,
    product::checkout,
    progress::Progress,
    trial::{Trial, evidence::keep_evidence, is_true, logs::follow_lead},
};

const EXAMPLE: &str = "examples/hello-world/minicluster.yaml";
/// A lead that has not started by then will not start.
const START_DEADLINE: Duration = Duration::from_mins(10);

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
    let cluster = trial.named(&name).finished().await?;
    progress.say(&format!("where the time went:\n{}", account(applied, &cluster)));
    let listing = environment.kubectl(&["get", "minicluster", "--namespace", trial.namespace()])?;
    progress.say(&format!("kubectl get minicluster --namespace {}\n{listing}", trial.namespace()));
    if !is_true(&cluster, "Complete") {
        bail!("the MiniCluster {name} did not complete");
    }
    let namespace = trial.namespace();
    progress.say(&if environment.is_own() {
        format!(
            "the cluster stays up: `cargo e2e kubectl -- get pods -n {namespace}` looks at it, `cargo e2e down` ends it"
        )
    } else {
        format!("`kubectl delete namespace {namespace}` removes what was made")
    });
    Ok(())
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

/// A table of the phases of the lead's agent, and when the run had ended, which Kubernetes keeps in whole seconds.
fn account(applied: Timestamp, cluster: &MiniCluster) -> String {
    let Some(status) = &cluster.status else { return String::new() };
    let rows = status.timeline.iter().map(|phase| {
        let took = Duration::from_millis(phase.duration_milliseconds.unsigned_abs()).as_secs_f64();
        format!("  took {took:>6.3} s  agent of the lead: {}\n", phase.name)
    });
    let end = status.completion_time.as_ref().map(|end| {
        let seconds = end.0.duration_since(applied).as_secs_f64().max(0.0);
        format!("  {seconds:>6.1} s after it was applied: MiniCluster finished\n")
    });
    rows.chain(end).collect()
}
