//! MiniClusters that wait in a queue of the real Kueue. On a cluster of its own, because Kueue answers for every Job.

use anyhow::{Context as _, Result, ensure};
use e2e::{
    cluster::Target,
    environment::Environment,
    kubernetes::Network,
    trial::{
        Trial, condition,
        instance::{Instance, specification},
    },
    wait::{Look, until},
};
use flux_operator::crd::State;
use serde_json::json;

use super::{DEADLINE, on_a_cluster, options};

/// A queue with room for one MiniCluster of two pods, on nodes with a label.
const QUEUE: &str = "
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: pool}
spec: {nodeLabels: {e2e.example/pool: one}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
    - coveredResources: [cpu]
      flavors: [{name: pool, resources: [{name: cpu, nominalQuota: 200m}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 100
";

/// The way into it from a namespace.
const LOCAL_QUEUE: &str = "
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team}
spec: {clusterQueue: team}
";

/// Applies a MiniCluster with these labels besides, which asks for half of the quota in each of two pods. One without a
/// command stays up.
async fn queued(trial: &Trial, name: &str, labels: &str, command: &str) -> Result<()> {
    let fields = format!("size: 2, interactive: {}", command.is_empty());
    let container = format!("resources: {{requests: {{cpu: 100m}}}}{command}");
    let manifest = format!(
        "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\n\
         metadata: {{name: {name}, labels: {{kueue.x-k8s.io/queue-name: team{labels}}}}}\n\
         spec: {}\n",
        specification(&[&fields], &container)
    );
    trial.apply(&manifest).await.map(drop)
}

/// Waits until a MiniCluster waits in the queue, and returns what the queue says about it.
async fn waits(run: &Instance<'_>) -> Result<String> {
    let (status, reason, message) = run.says("Suspended", "waits in the queue team: ").await?;
    ensure!(status == "True" && reason == "InQueue", "{status} {reason}: {message}");
    Ok(message)
}

async fn one_after_the_other(environment: &Environment, trial: &Trial) -> Result<()> {
    let [first, second, third] =
        ["first", "second", "third"].map(|name| Instance::named(environment, trial, name));
    queued(trial, "first", "", "").await?;
    first.state(State::Running).await?;
    let selector = trial.pods("first").await?.into_iter().filter_map(|pod| pod.spec?.node_selector);
    let flavoured = selector.filter(|it| it.get("e2e.example/pool").is_some_and(|it| it == "one"));
    ensure!(flavoured.count() == 2, "the pods do not have the node selector of the flavour");
    keeps_its_size(trial, &first).await?;

    queued(trial, "second", "", ", command: echo hello").await?;
    let message = waits(&second).await?;
    ensure!(message.contains("quota"), "{message}");
    ensure!(trial.pods("second").await?.is_empty(), "it has pods");

    let urgent = ", kueue.x-k8s.io/priority-class: urgent";
    queued(trial, "third", urgent, ", command: echo hello").await?;
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
    let words = "the queue team has admitted 2 pods";
    let (_, reason, message) = run.says("Progressing", words).await?;
    ensure!(reason == "ChangeRefused", "{reason}: {message}");
    run.edit(&json!({ "size": 2 }))?;
    let cluster = run
        .until("of the size that was admitted", |cluster| {
            condition(cluster, "Progressing")
                .is_some_and(|(_, reason, _)| reason != "ChangeRefused")
        })
        .await?;
    let state = cluster.status.and_then(|status| status.state);
    ensure!(state == Some(State::Running), "{state:?}");
    ensure!(uids().await? == before, "pods were stopped");
    Ok(())
}

fn in_a_queue(environment: &Environment) -> Result<()> {
    let scratch = tempfile::tempdir().context("making a directory for manifests")?;
    let written = |name: &str, text: &str| -> Result<String> {
        let path = scratch.path().join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {name}"))?;
        Ok(path.to_string_lossy().into_owned())
    };
    let (path, local) = (written("queue.yaml", QUEUE)?, written("local.yaml", LOCAL_QUEUE)?);
    environment.kubectl(&["label", "nodes", "--all", "e2e.example/pool=one"])?;
    // Kueue makes the certificate of its webhooks itself; the API server learns of it a moment later.
    until("the queue to be made", DEADLINE, || {
        let made = environment.kubectl(&["apply", "--server-side", "-f", &path]);
        Ok(made.map_or_else(|error| Look::NotYet(format!("{error:#}")), |_| Look::Ready(())))
    })?;
    environment.trial("queue", &[], async |trial| {
        environment.kubectl(&["apply", "--namespace", trial.namespace(), "-f", &local])?;
        one_after_the_other(environment, trial).await
    })
}

#[test]
#[ignore = "needs root"]
fn kueue_admits_preempts_and_resumes_miniclusters() {
    on_a_cluster(&options("kueue", Network::default()), |options, progress| {
        let environment = Environment::prepare(&Target::Own(options.clone()), false, progress)?;
        environment.install_kueue(progress)?;
        in_a_queue(&environment)
    });
}
