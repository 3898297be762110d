//! The objects of a measurement: MiniClusters that differ in their names only, and the nodes that kwok simulates.

use crate::operator::OperatorProgram;
use e2e::kubernetes::KubernetesVersion;
use e2e::prelude::*;
use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use serde::Serialize;

/// What every measurement works with.
#[derive(Clone, Copy)]
pub(super) struct Bench<'bench> {
    pub(super) environment: &'bench Environment,
    pub(super) program: &'bench OperatorProgram,
}

/// Pods with this annotation run until it is taken away: see `kwok.yaml`.
pub(super) const HOLD: &str = "flux-e2e/hold";
/// Kubernetes' own limit, unless the node has another.
const PODS_PER_NODE: u32 = 110;

/// What is created at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Load {
    /// How many MiniClusters have finished before.
    pub(super) finished: u32,
    pub(super) miniclusters: u32,
    pub(super) pods: u32,
}

impl Load {
    /// Whether the lead waits until all pods are ready, as with a quorum. For few pods the usual time of a pod is enough.
    pub(super) const fn waits_for_all(self) -> bool {
        self.miniclusters == 1
    }

    pub(super) fn objects(self) -> Vec<DynamicObject> {
        let mut spec = json!({
            "size": self.pods,
            "containers": [{"image": "ubuntu:24.04", "command": "echo hello world"}],
        });
        if self.waits_for_all() {
            spec["pod"] = json!({"annotations": {HOLD: "true"}});
        }
        objects("mc", self.miniclusters, &spec)
    }
}

/// So many MiniClusters with this specification, whose names begin with `name`.
pub(super) fn objects(name: &str, count: u32, spec: &Value) -> Vec<DynamicObject> {
    let resource = ApiResource::erase::<MiniCluster>(&());
    let object = |number: u32| {
        DynamicObject::new(&format!("{name}-{number}"), &resource).data(json!({"spec": spec}))
    };
    (0..count).map(object).collect()
}

/// Makes nodes for the largest of these loads, waits until they are ready, and returns their number. Ended pods need no
/// room, so one load after the other fits.
pub(super) async fn make_nodes(
    client: &Client,
    environment: &Environment,
    loads: &[Load],
) -> Result<u32> {
    let api: Api<Node> = Api::all(client.clone());
    let count = nodes_for(loads);
    for number in 0..count {
        let node = node(number).context("describing a node")?;
        api.create(&PostParams::default(), &node).await.context("making a node")?;
    }
    environment.kubectl(&["wait", "--for=condition=Ready", "nodes", "--all", "--timeout=3m"])?;
    Ok(count)
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
