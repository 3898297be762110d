//! MiniClusters on two nodes, of which the second has no image volumes and is drained, lost, cut off or short of disk.
//! One cluster serves all cases, one after the other. Needs root.

mod loss;
mod network;
mod place;

use super::{FIRST, OUT_OF_SERVICE, SECOND, on_two_nodes, two_nodes};
use crate::prelude::*;
use e2e::kubernetes::{ContainerRuntime, Options};

/// Kubernetes evicts these pods 20 seconds after it has noticed the loss of their node, instead of after five minutes. A
/// short cut of the network is over before that.
const GIVEN_UP_SOON: &str = "pod: {tolerations: [{key: node.kubernetes.io/unreachable, \
    operator: Exists, effect: NoExecute, tolerationSeconds: 20}]}";

fn nodes() -> Options {
    two_nodes("two", ContainerRuntime::WithoutImageVolumes)
}

#[test]
#[ignore = "needs root"]
fn miniclusters_on_two_nodes() {
    on_two_nodes(&nodes(), try_all);
}

fn try_all(environment: &Environment) -> Result<()> {
    case(environment, "place", place::one_broker_comes_to_each_node)?;
    case(environment, "volumes", place::an_image_that_one_node_cannot_mount_is_copied)?;
    case(environment, "drain", place::a_rank_leaves_in_order_when_its_node_is_drained)?;
    case(environment, "network", network::brokers_that_cannot_reach_each_other_join_again)?;
    case(environment, "loss", loss::workers_of_a_lost_node_come_back_with_it)?;
    case(environment, "given-up", loss::pods_of_a_node_that_is_given_up_are_made_elsewhere)?;
    case(environment, "lead", loss::leads_of_a_node_that_is_given_up_begin_again_elsewhere)?;
    // This case is the last, because the kubelet removes images that no pod uses.
    case(environment, "disk", loss::pods_of_a_node_that_runs_short_of_disk_are_evicted)
}

/// Applies a MiniCluster of two brokers, the lead on the node `lead` and the worker on the other, and waits until Flux
/// has both.
async fn apart<'run>(
    trial: &'run Trial,
    name: &'run str,
    fields: &str,
    container: &str,
    lead: &str,
) -> Result<Instance<'run>> {
    let other = if lead == FIRST { SECOND } else { FIRST };
    trial.kubectl(&["cordon", other])?;
    let spec = specification(&["size: 1, maxSize: 2", fields], container);
    let run = trial.start(name, &spec).await?;
    run.ready().await?;
    trial.kubectl(&["uncordon", other])?;
    run.edit(&json!({ "size": 2 }))?;
    run.up(2).await?;
    for (index, wanted) in [(0, lead), (1, other)] {
        let pod = run.pod(index).await?;
        ensure!(node_of(&pod) == wanted, "{} is on {}", pod.name_any(), node_of(&pod));
    }
    Ok(run)
}

fn await_second(trial: &Trial, ready: &str) -> Result<()> {
    let condition = format!("--for=condition=Ready={ready}");
    trial.kubectl(&["wait", "node", SECOND, &condition, "--timeout=2m"]).map(drop)
}

fn node_of(pod: &Pod) -> &str {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    node.unwrap_or("no node")
}

/// Waits until Kubernetes has given the worker up, and deletes its pod.
fn await_given_up(run: &Instance<'_>, worker: &Pod) -> Result<()> {
    let deleted = "--for=jsonpath={.metadata.deletionTimestamp}";
    run.kubectl(&["wait", "pod", &worker.name_any(), deleted, "--timeout=3m"]).map(drop)
}
