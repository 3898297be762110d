//! MiniClusters that wait in a queue of the real Kueue. On a cluster of its own, because Kueue answers for every Job.

use super::{case, on_a_cluster, options};
use crate::{Instance, Trial, look, specification};
use anyhow::{Result, ensure};
use e2e::kubernetes::Network;
use e2e::progress::Progress;
use e2e::trial::condition;
use flux_operator::crd::State;
use serde_json::json;

const QUEUE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node/queue.yaml");

/// Applies a MiniCluster with these labels besides, which asks for half of the quota in each of two pods. One without a
/// command stays up.
async fn queued<'run>(
    trial: &'run Trial,
    name: &'run str,
    labels: &str,
    command: &str,
) -> Result<Instance<'run>> {
    let fields = format!("size: 2, interactive: {}", command.is_empty());
    let container = format!("resources: {{requests: {{cpu: 100m}}}}{command}");
    let manifest = format!(
        "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\n\
         metadata: {{name: {name}, labels: {{kueue.x-k8s.io/queue-name: team{labels}}}}}\n\
         spec: {}\n",
        specification(&[&fields], &container)
    );
    trial.apply(&manifest).await?;
    Ok(trial.named(name))
}

/// Waits until a MiniCluster waits in the queue, and returns what the queue says about it.
async fn waits(run: &Instance<'_>) -> Result<String> {
    let said = run.says("Suspended", "waits in the queue team: ").await?;
    ensure!(said.status == "True" && said.reason == "InQueue", "{said:?}");
    Ok(said.message)
}

async fn one_after_the_other(trial: &Trial) -> Result<()> {
    let apply = ["apply", "--server-side", "-f", QUEUE];
    // Kueue makes the certificate of its webhooks itself; the API server learns of it a moment later.
    look("the queue to be made", async || Ok(trial.kubectl(&apply).ok())).await?;
    let first = queued(trial, "first", "", "").await?;
    first.state(State::Running).await?;
    let selector = trial.pods("first").await?.into_iter().filter_map(|pod| pod.spec?.node_selector);
    let flavoured = selector.filter(|it| it.get("e2e.example/pool").is_some_and(|it| it == "one"));
    ensure!(flavoured.count() == 2, "the pods do not have the node selector of the flavour");
    keeps_its_size(trial, &first).await?;

    let second = queued(trial, "second", "", ", command: echo hello").await?;
    let message = waits(&second).await?;
    ensure!(message.contains("quota"), "{message}");
    ensure!(trial.pods("second").await?.is_empty(), "it has pods");

    let urgent = ", kueue.x-k8s.io/priority-class: urgent";
    let third = queued(trial, "third", urgent, ", command: echo hello").await?;
    waits(&first).await?;
    third.complete().await?;
    // Of two that wait, the older is the first.
    first.state(State::Running).await?;
    waits(&second).await?;
    first.delete().await?;
    second.complete().await.map(drop)
}

/// Another size of what the queue has admitted is refused, and no pod is stopped for it.
async fn keeps_its_size(trial: &Trial, run: &Instance<'_>) -> Result<()> {
    let uids = async || -> Result<Vec<_>> {
        Ok(trial.pods(run.name).await?.into_iter().map(|pod| pod.metadata.uid).collect())
    };
    let before = uids().await?;
    run.edit(&json!({ "size": 1 }))?;
    let said = run.says("Progressing", "the queue team has admitted 2 pods").await?;
    ensure!(said.reason == "ChangeRefused", "{said:?}");
    run.edit(&json!({ "size": 2 }))?;
    let cluster = run
        .until("of the size that was admitted", |cluster| {
            condition(cluster, "Progressing").is_some_and(|said| said.reason != "ChangeRefused")
        })
        .await?;
    let state = cluster.status.and_then(|status| status.state);
    ensure!(state == Some(State::Running), "{state:?}");
    ensure!(uids().await? == before, "pods were stopped");
    Ok(())
}

#[test]
#[ignore = "needs root"]
fn kueue_admits_preempts_and_resumes_miniclusters() {
    on_a_cluster(&options("kueue", Network::default()), |environment| {
        e2e::schedulers::install_kueue(environment, &Progress::new())?;
        environment.kubectl(&["label", "nodes", "--all", "e2e.example/pool=one"])?;
        case(environment, "queue", one_after_the_other)
    });
}
