//! `demo`: from a fresh machine to the output of a MiniCluster, with one command.

use crate::environment::Environment;
use crate::product::checkout;
use crate::progress;
use crate::trial::evidence::keep_evidence;
use crate::trial::logs::follow_lead;
use crate::trial::{Trial, is_true};
use anyhow::{Result, bail};
use std::time::Duration;

const EXAMPLE: &str = "examples/hello-world/minicluster.yaml";
/// The demonstration fails if the lead has not started within this time.
const START_DEADLINE: Duration = Duration::from_mins(10);

/// Runs the hello-world example in `environment` and shows what happens.
pub(crate) fn demo(environment: &Environment) -> Result<()> {
    let manifest = fs_err::read_to_string(checkout()?.join(EXAMPLE))?;
    environment.run(async |client| {
        let trial = Trial::begin(&environment.cluster, &client, "flux-demo").await?;
        match show(&trial, &manifest, environment).await {
            Err(error) => bail!("{error:#}\n{}", keep_evidence(&trial).await),
            shown => shown,
        }
    })
}

async fn show(trial: &Trial, manifest: &str, environment: &Environment) -> Result<()> {
    let namespace = trial.namespace();
    let indented: Vec<_> = manifest.lines().map(|line| format!("    {line}")).collect();
    progress::log(&format!("applying {EXAMPLE} in the namespace {namespace}:"));
    progress::log(&indented.join("\n"));
    let name = trial.apply(manifest).await?;
    progress::log("following the log of the lead:");
    follow_lead(trial, &name, START_DEADLINE, |line| progress::log(&format!("  | {line}"))).await?;
    let cluster = trial.named(&name).finished().await?;
    let status = trial.plugin_prints(&["status", &name])?;
    progress::log(&format!("kubectl flux status --namespace {namespace} {name}\n{status}"));
    let listing = environment.kubectl(&["get", "minicluster", "--namespace", namespace])?;
    progress::log(&format!("kubectl get minicluster --namespace {namespace}\n{listing}"));
    if !is_true(&cluster, "Complete") {
        bail!("the MiniCluster {name} did not complete");
    }
    progress::log(&if environment.is_own() {
        format!(
            "the cluster stays up: `cargo e2e kubectl -- get pods -n {namespace}` looks at it, `cargo e2e down` ends it"
        )
    } else {
        format!("`kubectl delete namespace {namespace}` removes what was made")
    });
    Ok(())
}
