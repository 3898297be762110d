//! MiniClusters whose pods get nodes together or not at all, by a real scheduler that reads PodGroups. On a
//! cluster of its own, because a node is given seats to count.

use anyhow::{Result, ensure};
use e2e::{
    cluster::Target,
    environment::Environment,
    kubernetes::Network,
    progress::Progress,
    scheduler_plugins::SCHEDULER,
    trial::{
        Trial,
        instance::{Instance, specification},
    },
};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{on_a_cluster, options};

/// Places on the node: for one MiniCluster of three, and one more.
const SEATS: &str = "4";

/// Applies a MiniCluster each of whose pods takes a seat.
async fn single(run: &Instance<'_>, fields: &str) -> Result<()> {
    let seat = "resources: {limits: {e2e.example/seat: '1'}}";
    run.apply(&specification(&[fields], seat)).await
}

/// The same as a gang.
async fn gang(run: &Instance<'_>, size: u32) -> Result<()> {
    let scheduling = format!("scheduling: {{gang: PodGroup}}, pod: {{schedulerName: {SCHEDULER}}}");
    single(run, &format!("size: {size}, interactive: true, {scheduling}")).await
}

/// How many pods of a MiniCluster have a node.
async fn placed(trial: &Trial, name: &str) -> Result<usize> {
    let has_node = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    Ok(trial.pods(name).await?.iter().filter(|pod| has_node(pod)).count())
}

async fn all_or_none(environment: &Environment, trial: &Trial) -> Result<()> {
    let [first, second, other] =
        ["first", "second", "single"].map(|name| Instance::named(environment, trial, name));
    gang(&first, 3).await?;
    first.running(3).await?;
    // Of its three pods one would find a seat.
    gang(&second, 3).await?;
    let (_, _, message) = second.says("Progressing", "Waiting").await?;
    ensure!(message.contains("nodes are available"), "{message}");
    ensure!(placed(trial, "second").await? == 0, "it is placed by half");
    single(&other, "size: 1").await?;
    other.running(1).await?;
    ensure!(placed(trial, "second").await? == 0, "it is placed by half");
    first.delete().await?;
    second.running(3).await?;
    other.delete().await?;
    // A worker of a gang that is lost is replaced, and another size is another number of members.
    second.delete_pod(2).await?;
    second.brokers(2).await?;
    second.running(3).await?;
    second.edit(&json!({ "size": 2 }))?;
    second.running(2).await.map(drop)
}

/// Where nothing reads PodGroups a gang waits, says so, and starts when something does.
async fn without_a_scheduler(
    environment: &Environment,
    progress: &Progress,
    trial: &Trial,
) -> Result<()> {
    let early = Instance::named(environment, trial, "early");
    gang(&early, 2).await?;
    let (status, _, message) = early.says("Progressing", "NoPodGroups").await?;
    ensure!(status == "False", "{status}: {message}");
    ensure!(trial.pods("early").await?.is_empty(), "it has pods");
    environment.install_scheduler_plugins(progress)?;
    early.running(2).await?;
    // With its pods, so that their seats are free.
    early.delete().await
}

#[test]
#[ignore = "needs root"]
fn pods_of_a_gang_get_nodes_together_or_not_at_all() {
    on_a_cluster(&options("gang", Network::default()), |options, progress| {
        let environment = Environment::prepare(&Target::Own(options.clone()), false, progress)?;
        let seats = format!(
            r#"[{{"op":"add","path":"/status/capacity/e2e.example~1seat","value":"{SEATS}"}}]"#
        );
        let node = environment.kubectl(&["get", "nodes", "--output=name"])?;
        let patch =
            ["patch", node.trim(), "--subresource=status", "--type=json", "--patch", &seats];
        environment.kubectl(&patch)?;
        environment.trial("no-scheduler", &[], async |trial| {
            without_a_scheduler(&environment, progress, trial).await
        })?;
        environment.trial("gang", &[], async |trial| all_or_none(&environment, trial).await)
    });
}
