//! What is created: MiniClusters that differ in nothing but their names, and the nodes that kwok plays for their pods.

use std::time::Duration;

use anyhow::{Context as _, Result};
use flux_operator::crd::MiniCluster;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
    core::DynamicObject,
    discovery::ApiResource,
};
use serde_json::json;

use crate::{kubernetes::KubernetesVersion, wait::until_found};

/// Pods with this annotation run until it is taken away: see `kwok.yaml`.
pub(super) const HOLD: &str = "flux-e2e/hold";
/// Kubernetes' own limit, unless the node has another.
const PODS_PER_NODE: u32 = 110;
/// kwok says that nodes are ready long before.
const READY: Duration = Duration::from_mins(3);

/// What is created at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Load {
    /// How many MiniClusters.
    pub(super) miniclusters: u32,
    /// Pods of each.
    pub(super) pods: u32,
}

impl Load {
    /// Whether the lead waits until all pods are there, as the quorum makes it. Where there are few the
    /// time that a pod runs is enough.
    pub(super) const fn waits_for_all(self) -> bool {
        self.miniclusters == 1
    }

    /// For people, and the namespace they are made in.
    pub(super) fn name(self) -> String {
        format!("{}x{}", self.miniclusters, self.pods)
    }

    /// The MiniClusters.
    pub(super) fn objects(self) -> Vec<DynamicObject> {
        let mut spec = json!({
            "size": self.pods,
            "containers": [{"image": "ubuntu:24.04", "command": "echo hello world"}],
        });
        if self.waits_for_all() {
            spec["pod"] = json!({"annotations": {HOLD: "true"}});
        }
        let resource = ApiResource::erase::<MiniCluster>(&());
        let object = |number: u32| {
            DynamicObject::new(&format!("mc-{number}"), &resource).data(json!({"spec": spec}))
        };
        (0..self.miniclusters).map(object).collect()
    }
}

/// Makes nodes for the largest of these loads, as pods that have ended take no room, and waits until pods can be
/// put on them. Returns how many there are.
pub(super) async fn make_nodes(client: &Client, loads: &[Load]) -> Result<usize> {
    let api: Api<Node> = Api::all(client.clone());
    let count = nodes_for(loads);
    for number in 0..count {
        let node = node(number).context("describing a node")?;
        api.create(&PostParams::default(), &node).await.context("making a node")?;
    }
    until_found(&format!("{count} simulated nodes to be ready"), READY, async || {
        let nodes = api.list(&ListParams::default()).await.context("listing the nodes")?.items;
        let ready = nodes.iter().filter(|node| takes_pods(node)).count();
        Ok((ready >= usize::try_from(count)?).then_some(ready))
    })
    .await
}

fn nodes_for(loads: &[Load]) -> u32 {
    let most = loads.iter().map(|load| load.miniclusters * load.pods).max();
    most.unwrap_or_default().div_ceil(PODS_PER_NODE) + 1
}

fn node(number: u32) -> Result<Node> {
    let text = include_str!("node.yaml")
        .replace("$NAME", &format!("node-{number:04}"))
        .replace("$PODS", &PODS_PER_NODE.to_string())
        .replace("$KUBELET", KubernetesVersion::default().full());
    Ok(serde_saphyr::from_str(&text)?)
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

    const MANY: Load = Load { miniclusters: 1000, pods: 4 };
    const LARGE: Load = Load { miniclusters: 1, pods: 5000 };

    #[test]
    fn specifications_are_valid_and_only_the_pods_of_the_large_one_are_held() {
        for (load, held) in [(MANY, 0), (LARGE, 1)] {
            let objects = load.objects();
            assert_eq!(objects.len(), usize::try_from(load.miniclusters).unwrap());
            let text = serde_json::to_string(&objects[0]).unwrap();
            let read: MiniCluster = serde_json::from_str(&text).unwrap();
            assert_eq!(read.spec.size, i32::try_from(load.pods).unwrap());
            assert_eq!(text.matches(HOLD).count(), held, "{text}");
        }
        let stages = include_str!("../../../node/src/kubernetes/files/kwok.yaml");
        assert!(stages.contains(&format!(".metadata.annotations[\"{HOLD}\"]")));
    }

    #[test]
    fn nodes_have_room_for_the_largest_load_alone_and_take_pods_once_they_are_ready() {
        assert_eq!((nodes_for(&[MANY, LARGE]), nodes_for(&[])), (47, 1));
        let mut node = node(7).unwrap();
        assert_eq!(node.metadata.name.as_deref(), Some("node-0007"));
        assert!(!takes_pods(&node));
        let ready = json!([{"type": "Ready", "status": "True"}]);
        node.status.as_mut().unwrap().conditions = Some(serde_json::from_value(ready).unwrap());
        assert!(takes_pods(&node));
        let taint =
            json!({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]});
        node.spec = Some(serde_json::from_value(taint).unwrap());
        assert!(!takes_pods(&node));
    }
}
