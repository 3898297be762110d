//! Gangs: all pods of a MiniCluster get nodes, or none does, by real schedulers that read PodGroups: scheduler-plugins and
//! Kubernetes' own. On a cluster of its own, because the test gives the node a number of seats.

use super::placed;
use crate::prelude::*;
use e2e::examples::run::run;
use e2e::kubernetes::{Options, go_programs};
use e2e::schedulers::{SCHEDULER, install_scheduler_plugins};

/// Seats on the node: for one MiniCluster of three pods, and one more.
const SEATS: &str = "4";

const SEAT: &str = "resources: {limits: {e2e.example/seat: '1'}}";

/// Kubernetes' own PodGroups: chosen by name, and by default.
const NATIVE: &str = "scheduling: {gang: Native}";
const FOUND: &str = "scheduling: {gang: Auto}";

/// Applies a MiniCluster with these fields, each of whose pods takes a seat.
async fn seated<'run>(
    trial: &'run Trial,
    name: &'run str,
    size: u32,
    scheduling: &str,
) -> Result<Instance<'run>> {
    trial.run(name, &format!("size: {size}, interactive: true, {scheduling}"), SEAT).await
}

/// The same as a gang for scheduler-plugins.
async fn gang<'run>(trial: &'run Trial, name: &'run str, size: u32) -> Result<Instance<'run>> {
    let scheduling = format!("scheduling: {{gang: PodGroup}}, pod: {{schedulerName: {SCHEDULER}}}");
    seated(trial, name, size, &scheduling).await
}

async fn all_or_none(trial: &Trial) -> Result<()> {
    let first = gang(trial, "first", 3).await?;
    first.running(3).await?;
    // One of its three pods would find a seat.
    let second = gang(trial, "second", 3).await?;
    one_after_the_other(trial, first, second).await
}

/// Two that each need more than half of the seats begin at once: one gets all its seats, the other none until then.
async fn of_kubernetes(trial: &Trial) -> Result<()> {
    let first = seated(trial, "first", 3, NATIVE).await?;
    let second = seated(trial, "second", 3, FOUND).await?;
    let (runs, waits) = tokio::select! {
        result = first.running(3) => result.map(|_| (first, second)),
        result = second.running(3) => result.map(|_| (second, first)),
    }?;
    one_after_the_other(trial, runs, waits).await
}

/// While `first` has three of the seats, `second` has none of them, and three when they are free.
async fn one_after_the_other(
    trial: &Trial,
    first: Instance<'_>,
    second: Instance<'_>,
) -> Result<()> {
    let condition = second.await_condition("Progressing", "Waiting").await?;
    // Kubernetes' own scheduler gives the first message to the pod without a seat, and the second to the others.
    let why = ["nodes are available", "minCount (3) cannot be satisfied"];
    ensure!(why.iter().any(|words| condition.message.contains(words)), "{condition:?}");
    ensure!(placed(trial, second.name).await? == 0, "it is placed by half");
    let single = trial.run("single", "size: 1", SEAT).await?;
    single.running(1).await?;
    ensure!(placed(trial, second.name).await? == 0, "it is placed by half");
    first.delete().await?;
    second.running(3).await?;
    single.delete().await?;
    // A lost worker of a gang is replaced, and a change of the size changes the number of members.
    second.delete_pod(2).await?;
    second.brokers(2).await?;
    second.running(3).await?;
    second.edit(&json!({ "size": 2 }))?;
    second.running(2).await.map(drop)
}

/// Without a scheduler that reads PodGroups a gang waits, and its status has the reason; it starts when there is one.
async fn without_a_scheduler(environment: &Environment, trial: &Trial) -> Result<()> {
    let early = gang(trial, "early", 2).await?;
    let condition = early.await_condition("Progressing", "NoPodGroups").await?;
    ensure!(condition.status == "False", "{condition:?}");
    ensure!(trial.pods("early").await?.is_empty(), "it has pods");
    install_scheduler_plugins(environment)?;
    early.running(2).await?;
    // Deletes it with its pods, so that their seats are free.
    early.delete().await
}

#[test]
#[ignore = "needs root"]
fn all_pods_of_a_gang_get_nodes_or_none() {
    let options = Options { native_gangs: true, ..options("gang", Network::default()) };
    on_a_cluster(&options, |environment| {
        // Before the cases: the cluster's network does not reach the Go module proxy.
        go_programs("scheduler-plugins", &options.cache)?;
        let seats = json!({ "status": { "capacity": { "e2e.example/seat": SEATS } } }).to_string();
        let node = environment.kubectl(&["get", "nodes", "--output=name"])?;
        environment.kubectl(&["patch", node.trim(), "--subresource=status", "--patch", &seats])?;
        case(environment, "native-gang", of_kubernetes)?;
        run("topology", None, environment)?;
        case(environment, "no-scheduler", async |trial| {
            without_a_scheduler(environment, trial).await
        })?;
        case(environment, "gang", all_or_none)?;
        run("gang", None, environment)
    });
}
