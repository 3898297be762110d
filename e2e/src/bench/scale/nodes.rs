//! The nodes that kwok plays.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde_json::json;

use super::manifest::Load;
use crate::{kubernetes::KubernetesVersion, progress::Progress};

/// Kubernetes' own limit, unless the node has another.
const PODS_PER_NODE: u32 = 110;
/// kwok says that they are ready long before.
const DEADLINE: Duration = Duration::from_mins(3);
/// Between two looks at them.
const PAUSE: Duration = Duration::from_millis(500);

/// How many nodes the largest of these loads needs: pods that have ended take no room.
pub(super) fn needed(loads: &[Load]) -> u32 {
    loads.iter().copied().map(Load::all_pods).max().unwrap_or_default().div_ceil(PODS_PER_NODE) + 1
}

/// Makes `count` nodes, and waits until pods can be put on them.
pub(super) async fn make(client: &Client, count: u32, progress: &Progress) -> Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    for number in 0..count {
        let node = node(number).context("describing a node")?;
        api.create(&PostParams::default(), &node).await.context("making a node")?;
    }
    let begun = Instant::now();
    loop {
        let nodes = api.list(&ListParams::default()).await.context("listing the nodes")?.items;
        let ready = nodes.iter().filter(|node| takes_pods(node)).count();
        if u32::try_from(ready)? >= count {
            progress.say(&format!("{count} simulated nodes are ready"));
            return Ok(());
        }
        ensure!(begun.elapsed() < DEADLINE, "{ready} of {count} nodes are ready");
        tokio::time::sleep(PAUSE).await;
    }
}

/// A node that says it can mount images, as those of a cluster of this release do.
fn node(number: u32) -> serde_json::Result<Node> {
    let name = format!("node-{number:04}");
    let room = json!({"cpu": "256", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": PODS_PER_NODE.to_string()});
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        }},
        "status": {
            "allocatable": room,
            "capacity": room,
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "containerd://2.3.7",
                "kernelVersion": "",
                "kubeProxyVersion": "",
                "kubeletVersion": KubernetesVersion::default().full(),
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "",
                "systemUUID": "",
            },
        },
    }))
}

fn takes_pods(node: &Node) -> bool {
    let tainted = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    tainted.is_none_or(Vec::is_empty)
        && conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_the_largest_load_alone() {
        let many = Load { miniclusters: 1000, pods: 4 };
        let large = Load { miniclusters: 1, pods: 5000 };
        assert_eq!(needed(&[many, large]), 47);
        assert_eq!(needed(&[]), 1);
    }

    #[test]
    fn a_node_takes_pods_once_it_is_ready_and_no_taint_is_left() {
        let mut node = node(7).unwrap();
        assert_eq!(node.metadata.name.as_deref(), Some("node-0007"));
        assert!(!takes_pods(&node));
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let status = node.status.as_mut().unwrap();
        status.conditions = Some(serde_json::from_value(ready).unwrap());
        assert!(takes_pods(&node));
        let taint =
            json!({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]});
        node.spec = Some(serde_json::from_value(taint).unwrap());
        assert!(!takes_pods(&node));
    }
}
