//! MiniClusters whose pods get nodes together or not at all, by a real scheduler that reads PodGroups. On a
//! cluster of its own, because a node is given seats to count.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::{
    cluster::Target,
    environment::Environment,
    kubernetes::{DownAtEnd, Network},
    progress::Progress,
    scheduler_plugins::SCHEDULER,
    trial::{Trial, condition, is_true},
};
use flux_operator::crd::{MiniCluster, State};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::DeleteParams};
use serde_json::json;

use super::options;

/// A start, an end and a turn of the scheduler are done long before.
const DEADLINE: Duration = Duration::from_mins(3);

/// Places on the node: for one MiniCluster of three, and one more.
const SEATS: &str = "4";

/// A MiniCluster each of whose pods takes a seat.
fn minicluster(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata: {{name: {name}}}\n\
         spec: {{{spec}, containers: [{{image: 'ubuntu:24.04', \
         resources: {{limits: {{e2e.example/seat: '1'}}}}}}]}}\n"
    )
}

/// The same as a gang.
fn gang(name: &str, sizes: &str) -> String {
    let spec = format!(
        "{sizes}, interactive: true, scheduling: {{gang: PodGroup}}, pod: {{schedulerName: {SCHEDULER}}}"
    );
    minicluster(name, &spec)
}

async fn await_brokers(trial: &Trial, name: &str, brokers: i32) -> Result<()> {
    let is = |cluster: Option<&MiniCluster>| {
        let status = cluster.and_then(|cluster| cluster.status.as_ref());
        status.is_some_and(|status| {
            status.state == Some(State::Running) && status.ready_brokers == brokers
        })
    };
    let what = format!("running with {brokers} brokers");
    trial.await_minicluster(name, &what, DEADLINE, is).await.map(drop)
}

/// How many pods of a MiniCluster have a node.
async fn placed(trial: &Trial, name: &str) -> Result<usize> {
    let has_node = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    Ok(trial.pods(name).await?.iter().filter(|pod| has_node(pod)).count())
}

/// Waits until a MiniCluster waits for nodes, and returns what it says.
async fn await_waiting(trial: &Trial, name: &str) -> Result<String> {
    let waits = |cluster: Option<&MiniCluster>| {
        let progressing = cluster.and_then(|cluster| condition(cluster, "Progressing"));
        progressing.is_some_and(|(_, reason, _)| reason == "Waiting")
    };
    let cluster = trial.await_minicluster(name, "waiting for nodes", DEADLINE, waits).await?;
    let (_, _, message) = condition(&cluster, "Progressing").context("no condition")?;
    Ok(message.to_owned())
}

async fn all_or_none(trial: &Trial) -> Result<()> {
    trial.apply(&gang("first", "size: 3")).await?;
    await_brokers(trial, "first", 3).await?;
    // Of its three pods one would find a seat.
    trial.apply(&gang("second", "size: 3")).await?;
    let says = await_waiting(trial, "second").await?;
    ensure!(says.contains("nodes are available"), "{says}");
    ensure!(placed(trial, "second").await? == 0, "it is placed by half");
    trial.apply(&minicluster("single", "size: 1")).await?;
    await_brokers(trial, "single", 1).await?;
    ensure!(placed(trial, "second").await? == 0, "it is placed by half");
    trial.api::<MiniCluster>().delete("first", &DeleteParams::default()).await?;
    await_brokers(trial, "second", 3).await?;
    trial.api::<MiniCluster>().delete("single", &DeleteParams::default()).await?;
    replaced(trial).await
}

/// A worker of a gang that is lost is replaced, and another size is another number of members.
async fn replaced(trial: &Trial) -> Result<()> {
    let worker = trial.pod("second", 2).await?.context("no worker")?.name_any();
    trial.api::<Pod>().delete(&worker, &DeleteParams::default()).await?;
    let is_lost = |cluster: Option<&MiniCluster>| {
        let status = cluster.and_then(|cluster| cluster.status.as_ref());
        status.is_some_and(|status| status.ready_brokers == 2)
    };
    trial.await_minicluster("second", "without a worker", DEADLINE, is_lost).await?;
    await_brokers(trial, "second", 3).await?;
    trial.edit("second", &json!({ "size": 2 })).await?;
    await_brokers(trial, "second", 2).await
}

/// Where nothing reads PodGroups a gang waits, says so, and starts when something does.
async fn without_a_scheduler(
    environment: &Environment,
    progress: &Progress,
    trial: &Trial,
) -> Result<()> {
    trial.apply(&gang("early", "size: 2")).await?;
    let lacks = |cluster: Option<&MiniCluster>| {
        let progressing = cluster.and_then(|cluster| condition(cluster, "Progressing"));
        progressing.is_some_and(|(_, reason, _)| reason == "NoPodGroups")
    };
    let cluster = trial.await_minicluster("early", "lacking PodGroups", DEADLINE, lacks).await?;
    ensure!(!is_true(&cluster, "Progressing"), "{:?}", cluster.status);
    ensure!(trial.pods("early").await?.is_empty(), "it has pods");
    environment.install_scheduler_plugins(progress)?;
    await_brokers(trial, "early", 2).await?;
    // With its pods, so that their seats are free.
    let whole = ["--cascade=foreground", "--namespace", trial.namespace()];
    environment.kubectl(&[&["delete", "minicluster", "early"][..], &whole].concat()).map(drop)
}

#[test]
#[ignore = "needs root"]
fn pods_of_a_gang_get_nodes_together_or_not_at_all() {
    let progress = Progress::new();
    let options = options("gang", Network::default());
    let _down = DownAtEnd(options.clone());
    let run = || -> Result<()> {
        let environment = Environment::prepare(&Target::Own(options), false, &progress)?;
        let seats = format!(
            r#"[{{"op":"add","path":"/status/capacity/e2e.example~1seat","value":"{SEATS}"}}]"#
        );
        let node = environment.kubectl(&["get", "nodes", "--output=name"])?;
        let patch =
            ["patch", node.trim(), "--subresource=status", "--type=json", "--patch", &seats];
        environment.kubectl(&patch)?;
        environment.trial("no-scheduler", &[], async |trial| {
            without_a_scheduler(&environment, &progress, trial).await
        })?;
        environment.trial("gang", &[], async |trial| all_or_none(trial).await)
    };
    if let Err(error) = run() {
        panic!("{error:#}");
    }
}
