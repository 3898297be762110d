//! Finds out whether pods can have image volumes (KEP-4639), from the versions of the API server, and of the kubelet
//! and the container runtime of each node. The operator asks before it creates a Job, and keeps the result for a while.

use flux_api::cluster::Cluster;
use flux_api::objects::install::ImageVolumeSupport;
use k8s_openapi::api::core::v1::{Node, NodeSystemInfo, Taint, Toleration};
use kube::api::ListParams;
use kube::core::{ApiResource, Object};
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// First release of Kubernetes with image volumes switched on (stable with 1.36).
const MIN_KUBERNETES: (u32, u32) = (1, 35);
/// Container runtimes with their first releases that mount images.
const MIN_RUNTIMES: [(&str, (u32, u32)); 2] = [("containerd", (2, 1)), ("cri-o", (1, 33))];
/// Number of nodes in one page of a list: the images in a node's status make it large.
const NODE_LIST_PAGE: u32 = 100;
/// How long the result is kept: nodes of other releases appear seldom.
const RESULT_LIFETIME: Duration = Duration::from_mins(5);
/// Timeout for all requests, perhaps 50 pages: a reconcile may take a minute.
const NODE_LIST_TIMEOUT: Duration = Duration::from_secs(20);

/// Why pods cannot have image volumes, each with the taints of the nodes that it concerns; one of several nodes with
/// the same taints is named. A reason that concerns all pods is the only entry, without taints.
type LacksByTaints = Vec<(Vec<Taint>, String)>;

#[derive(Debug, Default)]
pub(crate) struct ImageVolumes(Mutex<Option<(Instant, LacksByTaints)>>);

impl ImageVolumes {
    /// Whether the pods of `cluster` can have image volumes on every node that they tolerate. Concurrent calls wait
    /// for one request; after a failure the next call asks again.
    pub(crate) async fn support(&self, client: &Client, cluster: &Cluster) -> ImageVolumeSupport {
        let mut last = self.0.lock().await;
        if last.as_ref().is_none_or(|(at, _)| at.elapsed() >= RESULT_LIFETIME) {
            let late = |_| Err("the API server did not respond in time".to_owned());
            let lacks = timeout(NODE_LIST_TIMEOUT, check(client)).await.unwrap_or_else(late)?;
            tracing::info!(?lacks, "checked whether pods can have image volumes");
            *last = Some((Instant::now(), lacks));
        }
        let tolerations = tolerations(cluster);
        let is_reached = |taints: &[Taint]| {
            taints.iter().all(|taint| tolerations.iter().any(|it| tolerates(it, taint)))
        };
        let mut lacks = last.iter().flat_map(|(_, lacks)| lacks);
        let reached = lacks.find(|(taints, _)| is_reached(taints));
        reached.map_or(Ok(()), |(_, lack)| Err(lack.clone()))
    }
}

/// The tolerations of the pods: those of the specification, and those of the overlay.
fn tolerations(cluster: &Cluster) -> Vec<Toleration> {
    let overlaid = cluster.pod.overlay.as_ref().and_then(|overlay| overlay.get("tolerations"));
    let parsed = |all: &Value| serde_json::from_value::<Vec<Toleration>>(all.clone()).ok();
    let overlaid = overlaid.and_then(parsed).unwrap_or_default();
    let own = cluster.pod.spec.tolerations.iter().flatten().cloned();
    own.chain(overlaid).collect()
}

/// As `ToleratesTaint` of Kubernetes' `Toleration` has it.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let is_empty = |text: Option<&str>| text.is_none_or(str::is_empty);
    let (key, effect) = (toleration.key.as_deref(), toleration.effect.as_deref());
    (is_empty(effect) || effect == Some(&taint.effect))
        && (is_empty(key) || key == Some(&taint.key))
        && (toleration.operator.as_deref() == Some("Exists")
            || toleration.value.as_deref().unwrap_or_default()
                == taint.value.as_deref().unwrap_or_default())
}

type NodeInfo = Object<NodeSpec, NodeStatus>;

#[derive(Debug, Clone, Default, Deserialize)]
struct NodeSpec {
    #[serde(default)]
    taints: Vec<Taint>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeStatus {
    node_info: Option<NodeSystemInfo>,
}

/// Why pods cannot have image volumes; an error if that could not be found out.
async fn check(client: &Client) -> Result<LacksByTaints, String> {
    let for_all = |lack: String| Ok(vec![(Vec::new(), lack)]);
    let version = match client.apiserver_version().await {
        Ok(version) => version.git_version,
        Err(error) => {
            return unknown("read the API server's version", &error).and_then(for_all);
        }
    };
    if let Err(lack) = kubernetes_has("the API server", &version) {
        return for_all(lack);
    }
    let api: Api<NodeInfo> = Api::all_with(client.clone(), &ApiResource::erase::<Node>(&()));
    let mut page = ListParams::default().limit(NODE_LIST_PAGE);
    let (mut any, mut lacks) = (false, LacksByTaints::new());
    loop {
        let nodes = match api.list(&page).await {
            Ok(nodes) => nodes,
            Err(error) => return unknown("list the nodes", &error).and_then(for_all),
        };
        for node in &nodes.items {
            // A node without this has no kubelet yet.
            let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
            any |= info.is_some();
            let lack = info.and_then(|info| node_has(&node.name_any(), info).err());
            let Some(lack) = lack else { continue };
            let taints = node.spec.taints.iter().filter(|taint| keeps_away(taint));
            let taints: Vec<Taint> = taints.cloned().collect();
            if taints.is_empty() {
                return for_all(lack);
            }
            if !lacks.iter().any(|(others, _)| *others == taints) {
                lacks.push((taints, lack));
            }
        }
        page.continue_token = nodes.metadata.continue_.filter(|token| !token.is_empty());
        if page.continue_token.is_none() {
            // An autoscaler may add nodes for the Job.
            return if any { Ok(lacks) } else { Err("there is no node yet".to_owned()) };
        }
    }
}

/// Whether pods without a toleration never get to nodes with this taint. Kubernetes' own are states that pass: a node that
/// is cordoned, say, gets pods again.
fn keeps_away(taint: &Taint) -> bool {
    taint.effect != "PreferNoSchedule" && !taint.key.starts_with("node.kubernetes.io/")
}

/// The reason if the operator may not do `what`; an error for a failure that may pass.
fn unknown(what: &str, error: &kube::Error) -> Result<String, String> {
    if matches!(error, kube::Error::Api(status) if status.is_forbidden()) {
        Ok(format!("the operator may not {what}"))
    } else {
        Err(format!("the operator could not {what}: {error}"))
    }
}

/// Whether a node can mount images; also true for a node without Linux, which gets no pod of ours.
fn node_has(name: &str, info: &NodeSystemInfo) -> ImageVolumeSupport {
    let name = format!("node {name}");
    if !info.operating_system.is_empty() && info.operating_system != "linux" {
        return Ok(());
    }
    kubernetes_has(&name, &info.kubelet_version)?;
    runtime_has(&name, &info.container_runtime_version)
}

fn kubernetes_has(what: &str, version: &str) -> ImageVolumeSupport {
    at_least(MIN_KUBERNETES, version, &format!("{what} is of Kubernetes {version}"))
}

/// An error that begins with `has` if `version` is older than `least`.
fn at_least(least: (u32, u32), version: &str, has: &str) -> ImageVolumeSupport {
    let is_new = release(version).is_some_and(|release| release >= least);
    let lack = || format!("{has}, image volumes need {}.{}", least.0, least.1);
    is_new.then_some(()).ok_or_else(lack)
}

/// Checks `version` from the node's status, e.g. `containerd://2.1.4`.
fn runtime_has(name: &str, version: &str) -> ImageVolumeSupport {
    for (runtime, least) in MIN_RUNTIMES {
        let of_it = version.strip_prefix(runtime).and_then(|it| it.strip_prefix("://"));
        if let Some(version) = of_it {
            return at_least(least, version, &format!("{name} runs {runtime} {version}"));
        }
    }
    Err(format!("{name} runs {version:?}, which is not known to mount images"))
}

/// The first two numbers of a version such as `v1.35.0-gke.100`.
fn release(version: &str) -> Option<(u32, u32)> {
    let digits = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().ok()
    };
    let (major, minor) = version.trim_start_matches('v').split_once('.')?;
    Some((digits(major)?, digits(minor)?))
}
