//! A cluster of two nodes, of which the second has no image volumes: what the harness promises of it, and what
//! becomes of `MiniClusters` when a node is drained, lost, cut off or short of disk. Needs root.
//!
//! One cluster serves all cases, one after the other: each but the first does something to the second node.

mod disk;
mod loss;
mod network;
mod place;
mod pods;

use anyhow::{Result, ensure};
use e2e::{
    cluster::Target,
    environment::Environment,
    kubernetes::{ContainerRuntime, DownAtEnd, Kubernetes, Network, Nodes, Options},
    progress::Progress,
    trial::{Trial, is_true, minicluster},
};
use flux_operator::crd::MiniCluster;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

use super::{
    cases::{Cases, DEADLINE, FLUX, pod, times, until},
    options,
};

/// The node with the control plane, on which the operator runs.
const FIRST: &str = "node-1";
/// The node to which things happen.
const SECOND: &str = "node-2";

/// Kubernetes gives these pods up two seconds after it has noticed that their node is lost, and not after five
/// minutes.
const GIVEN_UP_SOON: &str = "pod: {tolerations: [{key: node.kubernetes.io/unreachable, \
    operator: Exists, effect: NoExecute, tolerationSeconds: 2}]}";

/// The cluster of two nodes.
type Pair<'run> = Cases<'run>;

#[test]
#[ignore = "needs root"]
fn miniclusters_on_two_nodes() {
    let progress = Progress::new();
    let nodes = Nodes::Real(vec![ContainerRuntime::WithoutImageVolumes]);
    let options = Options { nodes, ..options("two", Network::default()) };
    let _down = DownAtEnd(options.clone());
    if let Err(error) = try_all(&options, &progress) {
        panic!("{error:#}");
    }
}

fn try_all(options: &Options, progress: &Progress) -> Result<()> {
    let cluster = Kubernetes::up(options, progress)?;
    ensure!(cluster.node_names() == [FIRST, SECOND], "{:?}", cluster.node_names());
    // Where the operator is not to be lost with a node.
    super::kubectl(&cluster, &["cordon", SECOND]);
    let target = Target::Own(options.clone());
    let environment = Environment::prepare(&target, false, progress)?;
    super::kubectl(&cluster, &["uncordon", SECOND]);
    let pair = Pair { environment: &environment, cluster: &cluster, options, progress };
    pair.case("pods", pods::pods_of_two_nodes_reach_each_other)?;
    pair.case("place", place::one_broker_comes_to_each_node)?;
    pair.case("volumes", place::an_image_that_one_node_cannot_mount_is_copied)?;
    pair.case("drain", place::a_rank_leaves_in_order_when_its_node_is_drained)?;
    pair.case("network", network::brokers_that_cannot_reach_each_other_join_again)?;
    pair.case("loss", loss::workers_of_a_lost_node_come_back_with_it)?;
    pair.case("given-up", loss::pods_of_a_node_that_is_given_up_are_made_elsewhere)?;
    // The last one: the kubelet has removed images that no pod uses.
    pair.case("disk", disk::pods_of_a_node_that_runs_short_of_disk_are_evicted)
}

impl Pair<'_> {
    /// Applies a MiniCluster of two brokers, the lead on the node `lead` and the worker on the other, and waits
    /// until Flux has both. The specification comes without braces, size and name. Returns the lead's name.
    async fn apart(&self, trial: &Trial, name: &str, spec: &str, lead: &str) -> Result<String> {
        let other = if lead == FIRST { SECOND } else { FIRST };
        self.kubectl(&["cordon", other])?;
        let spec = format!("{{size: 1, maxSize: 2, {spec}}}");
        let applied = trial.apply(&minicluster(name, &spec)).await;
        let ready = |cluster: Option<&MiniCluster>| cluster.is_some_and(|it| is_true(it, "Ready"));
        let waited = match applied {
            Ok(_) => trial.await_minicluster(name, "ready", DEADLINE, ready).await.map(drop),
            Err(error) => Err(error),
        };
        self.kubectl(&["uncordon", other])?;
        waited?;
        trial.edit(name, &json!({ "size": 2 })).await?;
        self.await_up(trial, name, "2").await?;
        for (index, wanted) in [(0, lead), (1, other)] {
            let pod = pod(trial, name, index).await?;
            ensure!(node_of(&pod) == wanted, "{} is on {}", pod.name_any(), node_of(&pod));
        }
        Ok(pod(trial, name, 0).await?.name_any())
    }

    /// Two MiniClusters of which a part is on the second node: the lead of `once`, whose command says that and goes
    /// on, and the worker of `people`, which is interactive. Returns these pods.
    async fn lead_and_worker_on_second(&self, trial: &Trial) -> Result<(Pod, Pod)> {
        let image = "image: 'ubuntu:24.04'";
        let command = format!("containers: [{{{image}, command: 'echo once; sleep 600'}}]");
        let people = format!("interactive: true, containers: [{{{image}}}]");
        self.apart(trial, "once", &command, SECOND).await?;
        self.apart(trial, "people", &people, FIRST).await?;
        Ok((pod(trial, "once", 0).await?, pod(trial, "people", 1).await?))
    }

    /// Waits until the second node's condition `Ready` is this.
    fn await_second(&self, ready: &str) -> Result<()> {
        let condition = format!("--for=condition=Ready={ready}");
        self.kubectl(&["wait", &format!("node/{SECOND}"), &condition, "--timeout=2m"])?;
        Ok(())
    }
}

fn node_of(pod: &Pod) -> &str {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    node.unwrap_or("no node")
}

/// Waits until the newest pod of that index is another one than `before`, and returns it.
async fn another(trial: &Trial, name: &str, index: u32, before: &Pod) -> Result<Pod> {
    until(&format!("another pod {index} of {name}"), async || {
        let pod = trial.pod(name, index).await?;
        Ok(pod.filter(|pod| pod.uid() != before.uid() && node_of(pod) != "no node"))
    })
    .await
}

/// Waits until Kubernetes no longer counts on the worker.
async fn await_given_up(trial: &Trial, name: &str) -> Result<()> {
    until("the worker to be given up", async || {
        let worker = pod(trial, name, 1).await?;
        Ok(worker.metadata.deletion_timestamp.is_some().then_some(()))
    })
    .await
}
