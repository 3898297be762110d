//! MiniClusters whose pods get nodes together or not at all, by a real scheduler that reads PodGroups. On a
//! cluster of its own, because a node is given seats to count.

use super::{case, on_a_cluster, options};
use crate::{Instance, Trial};
use anyhow::{Result, ensure};
use e2e::environment::Environment;
use e2e::kubernetes::{Network, go_programs};
use e2e::progress::Progress;
use e2e::schedulers::{SCHEDULER, install_scheduler_plugins};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// Places on the node: for one MiniCluster of three, and one more.
const SEATS: &str = "4";

const SEAT: &str = "resources: {limits: {e2e.example/seat: '1'}}";

/// Applies a MiniCluster that is a gang, each of whose pods takes a seat.
async fn gang<'run>(trial: &'run Trial, name: &'run str, size: u32) -> Result<Instance<'run>> {
    let scheduling = format!("scheduling: {{gang: PodGroup}}, pod: {{schedulerName: {SCHEDULER}}}");
    trial.run(name, &format!("size: {size}, interactive: true, {scheduling}"), SEAT).await
}

async fn placed(trial: &Trial, name: &str) -> Result<usize> {
    let has_node = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    Ok(trial.pods(name).await?.iter().filter(|pod| has_node(pod)).count())
}

async fn all_or_none(trial: &Trial) -> Result<()> {
    let first = gang(trial, "first", 3).await?;
    first.running(3).await?;
    // Of its three pods one would find a seat.
    let second = gang(trial, "second", 3).await?;
    let said = second.says("Progressing", "Waiting").await?;
    ensure!(said.message.contains("nodes are available"), "{said:?}");
    ensure!(placed(trial, "second").await? == 0, "it is placed by half");
    let single = trial.run("single", "size: 1", SEAT).await?;
    single.running(1).await?;
    ensure!(placed(trial, "second").await? == 0, "it is placed by half");
    first.delete().await?;
    second.running(3).await?;
    single.delete().await?;
    // A worker of a gang that is lost is replaced, and another size is another number of members.
    second.delete_pod(2).await?;
    second.brokers(2).await?;
    second.running(3).await?;
    second.edit(&json!({ "size": 2 }))?;
    second.running(2).await.map(drop)
}

/// Where nothing reads PodGroups a gang waits, says so, and starts when something does.
async fn without_a_scheduler(environment: &Environment, trial: &Trial) -> Result<()> {
    let early = gang(trial, "early", 2).await?;
    let said = early.says("Progressing", "NoPodGroups").await?;
    ensure!(said.status == "False", "{said:?}");
    ensure!(trial.pods("early").await?.is_empty(), "it has pods");
    install_scheduler_plugins(environment, &Progress::new())?;
    early.running(2).await?;
    // With its pods, so that their seats are free.
    early.delete().await
}

#[test]
#[ignore = "needs root"]
fn pods_of_a_gang_get_nodes_together_or_not_at_all() {
    let options = options("gang", Network::default());
    on_a_cluster(&options, |environment| {
        // A case is in the cluster's network, from which no Go module can be downloaded.
        go_programs("scheduler-plugins", &options.cache, &Progress::new())?;
        let seats = json!({ "status": { "capacity": { "e2e.example/seat": SEATS } } }).to_string();
        let node = environment.kubectl(&["get", "nodes", "--output=name"])?;
        environment.kubectl(&["patch", node.trim(), "--subresource=status", "--patch", &seats])?;
        case(environment, "no-scheduler", async |trial| {
            without_a_scheduler(environment, trial).await
        })?;
        case(environment, "gang", all_or_none)
    });
}
