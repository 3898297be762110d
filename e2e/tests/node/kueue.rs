//! MiniClusters that wait in a queue of the real Kueue. On a cluster of its own, because Kueue answers for every Job.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::{
    cluster::Target,
    environment::Environment,
    kubernetes::{DownAtEnd, Network},
    progress::Progress,
    trial::{Trial, condition, is_true},
    wait::{Look, until},
};
use flux_operator::crd::{MiniCluster, State};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::options;

/// A start, an end and a turn of the queue are done long before.
const DEADLINE: Duration = Duration::from_mins(3);

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

fn minicluster(name: &str, labels: &str, spec: &str) -> String {
    format!(
        "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\n\
         metadata: {{name: {name}, labels: {{kueue.x-k8s.io/queue-name: team{labels}}}}}\n\
         spec: {{size: 2, {spec}}}\n"
    )
}

/// A container with this command, that asks for half of the quota in each of two pods.
fn container(command: &str) -> String {
    format!(
        "containers: [{{image: 'ubuntu:24.04', {command}resources: {{requests: {{cpu: 100m}}}}}}]"
    )
}

async fn await_state(trial: &Trial, name: &str, state: State) -> Result<MiniCluster> {
    let is = |cluster: Option<&MiniCluster>| {
        let status = cluster.and_then(|cluster| cluster.status.as_ref());
        status.is_some_and(|status| status.state == Some(state))
    };
    trial.await_minicluster(name, &format!("{state:?}"), DEADLINE, is).await
}

/// What the queue says about a MiniCluster that waits there.
async fn waits(trial: &Trial, name: &str) -> Result<String> {
    let says = |cluster: Option<&MiniCluster>| {
        let found = cluster.and_then(|cluster| condition(cluster, "Suspended"));
        found.is_some_and(|(status, reason, message)| {
            status == "True" && reason == "InQueue" && message.contains(": ")
        })
    };
    let cluster = trial.await_minicluster(name, "waiting in the queue", DEADLINE, says).await?;
    let (_, _, message) = condition(&cluster, "Suspended").context("no condition")?;
    ensure!(message.starts_with("waits in the queue team: "), "{message}");
    Ok(message.to_owned())
}

async fn one_after_the_other(trial: &Trial) -> Result<()> {
    let interactive = format!("interactive: true, {}", container(""));
    trial.apply(&minicluster("first", "", &interactive)).await?;
    await_state(trial, "first", State::Running).await?;
    let selector = trial.pods("first").await?.into_iter().filter_map(|pod| pod.spec?.node_selector);
    let flavoured = selector.filter(|it| it.get("e2e.example/pool").is_some_and(|it| it == "one"));
    ensure!(flavoured.count() == 2, "the pods do not have the node selector of the flavour");

    keeps_its_size(trial, "first").await?;

    let hello = container("command: echo hello, ");
    trial.apply(&minicluster("second", "", &hello)).await?;
    let says = waits(trial, "second").await?;
    ensure!(says.contains("quota"), "{says}");
    ensure!(trial.pods("second").await?.is_empty(), "it has pods");

    let urgent = ", kueue.x-k8s.io/priority-class: urgent";
    trial.apply(&minicluster("third", urgent, &hello)).await?;
    waits(trial, "first").await?;
    complete(trial, "third").await?;
    // Of two that wait, the older is the first.
    await_state(trial, "first", State::Running).await?;
    waits(trial, "second").await?;
    trial.api::<MiniCluster>().delete("first", &DeleteParams::default()).await?;
    complete(trial, "second").await
}

/// Another size of what the queue has admitted is refused, and no pod is stopped for it.
async fn keeps_its_size(trial: &Trial, name: &str) -> Result<()> {
    let uids = async || -> Result<Vec<_>> {
        Ok(trial.pods(name).await?.into_iter().map(|pod| pod.metadata.uid).collect())
    };
    let before = uids().await?;
    let size = async |size: u32| {
        let patch = Patch::Merge(json!({ "spec": { "size": size } }));
        trial.api::<MiniCluster>().patch(name, &PatchParams::default(), &patch).await.map(drop)
    };
    let refused = async |is: bool| {
        let says = |cluster: Option<&MiniCluster>| {
            let found = cluster.and_then(|cluster| condition(cluster, "Progressing"));
            found.is_some_and(|(_, reason, message)| {
                (reason == "ChangeRefused"
                    && message.contains("the queue team has admitted 2 pods"))
                    == is
            })
        };
        trial.await_minicluster(name, "another answer to a size", DEADLINE, says).await
    };
    size(1).await?;
    refused(true).await?;
    size(2).await?;
    let cluster = refused(false).await?;
    let state = cluster.status.and_then(|status| status.state);
    ensure!(state == Some(State::Running), "{state:?}");
    ensure!(uids().await? == before, "pods were stopped");
    Ok(())
}

async fn complete(trial: &Trial, name: &str) -> Result<()> {
    let cluster = trial.await_finished(name, DEADLINE).await?;
    ensure!(is_true(&cluster, "Complete"), "{name}: {:?}", cluster.status);
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
        one_after_the_other(trial).await
    })
}

#[test]
#[ignore = "needs root"]
fn kueue_admits_preempts_and_resumes_miniclusters() {
    let progress = Progress::new();
    let options = options("kueue", Network::default());
    let _down = DownAtEnd(options.clone());
    let run = || -> Result<()> {
        let environment = Environment::prepare(&Target::Own(options), false, &progress)?;
        environment.install_kueue(&progress)?;
        in_a_queue(&environment)
    };
    if let Err(error) = run() {
        panic!("{error:#}");
    }
}
