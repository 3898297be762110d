//! Finds out whether pods can have image volumes (KEP-4639), from the API server's version and from what
//! each node says of its kubelet and its container runtime.
//!
//! The operator asks when it is about to create a Job, and the answer serves all `MiniClusters` for a
//! while: where nothing starts, nothing is asked.

use crate::controller::decide::install::ImageVolumeSupport;
use k8s_openapi::api::core::v1::{Node, NodeSystemInfo};
use kube::api::ListParams;
use kube::core::{ApiResource, Object};
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// Kubernetes has image volumes switched on from this release on (beta without being asked for; stable
/// with 1.36).
const KUBERNETES: (u32, u32) = (1, 35);
/// From this release on an administrator may have switched them on: that is not to be seen.
const SWITCH: (u32, u32) = (1, 31);
/// Container runtimes and the releases from which on they mount images.
const RUNTIMES: [(&str, (u32, u32)); 2] = [("containerd", (2, 1)), ("cri-o", (1, 33))];
/// Nodes that are asked for at once: what a node says of its images is most of a request.
const PAGE: u32 = 100;
/// How long an answer is taken for granted. Nodes come and go all the time; other ones do not.
const GOOD_FOR: Duration = Duration::from_mins(5);
/// The same where there was none.
const UNKNOWN_FOR: Duration = Duration::from_secs(30);
/// Longest time for an answer: a MiniCluster waits for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The last answer, shared by all reconciles.
#[derive(Debug, Default)]
pub(in crate::controller) struct ImageVolumes(Mutex<Option<(Instant, ImageVolumeSupport)>>);

impl ImageVolumes {
    /// Whether pods can have image volumes. Of several who ask at once, one
    /// asks the API server.
    pub(in crate::controller) async fn support(&self, client: &Client) -> ImageVolumeSupport {
        let mut last = self.0.lock().await;
        if let Some((since, support)) = &*last
            && since.elapsed() < lifetime(support)
        {
            return support.clone();
        }
        let late = || {
            ImageVolumeSupport::Unknown("the API server did not say in time what it has".to_owned())
        };
        let support = timeout(PATIENCE, ask(client)).await.unwrap_or_else(|_| late());
        if last.as_ref().is_none_or(|(_, before)| *before != support) {
            tracing::info!(?support, "image volumes");
        }
        *last = Some((Instant::now(), support.clone()));
        support
    }
}

const fn lifetime(support: &ImageVolumeSupport) -> Duration {
    match support {
        ImageVolumeSupport::Yes | ImageVolumeSupport::No(_) | ImageVolumeSupport::Off(_) => {
            GOOD_FOR
        }
        ImageVolumeSupport::Unknown(_) => UNKNOWN_FOR,
    }
}

/// A node without what is not asked for.
type NodeInfo = Object<IgnoredAny, NodeStatus>;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeStatus {
    node_info: Option<NodeSystemInfo>,
}

async fn ask(client: &Client) -> ImageVolumeSupport {
    match client.apiserver_version().await {
        Ok(version) => {
            if let Some(lack) = kubernetes_lacks("the API server", &version.git_version) {
                return lack;
            }
        }
        Err(error) => return unknown("read the API server's version", &error),
    }
    let api: Api<NodeInfo> = Api::all_with(client.clone(), &ApiResource::erase::<Node>(&()));
    let mut page = ListParams::default().limit(PAGE);
    let mut any = false;
    loop {
        let nodes = match api.list(&page).await {
            Ok(nodes) => nodes,
            Err(error) => return unknown("list the nodes", &error),
        };
        any |= !nodes.items.is_empty();
        if let Some(lack) = nodes.items.iter().find_map(node_lacks) {
            return lack;
        }
        match nodes.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None if any => return ImageVolumeSupport::Yes,
            // They come when there is something to run.
            None => return ImageVolumeSupport::Unknown("there is no node yet".to_owned()),
        }
    }
}

fn unknown(what: &str, error: &kube::Error) -> ImageVolumeSupport {
    let forbidden = matches!(error, kube::Error::Api(status) if status.is_forbidden());
    ImageVolumeSupport::Unknown(if forbidden {
        format!("the operator may not {what}")
    } else {
        format!("the operator could not {what}: {error}")
    })
}

/// What keeps `node` from mounting images; nothing where it runs something else than Linux: no pod of
/// ours gets there.
fn node_lacks(node: &NodeInfo) -> Option<ImageVolumeSupport> {
    let name = format!("node {}", node.name_any());
    let Some(info) = node.status.as_ref().and_then(|status| status.node_info.as_ref()) else {
        return Some(ImageVolumeSupport::No(format!("{name} does not say what it runs")));
    };
    if !info.operating_system.is_empty() && info.operating_system != "linux" {
        return None;
    }
    kubernetes_lacks(&name, &info.kubelet_version).or_else(|| {
        runtime_lacks(&name, &info.container_runtime_version).map(ImageVolumeSupport::No)
    })
}

fn kubernetes_lacks(what: &str, version: &str) -> Option<ImageVolumeSupport> {
    let (major, minor) = KUBERNETES;
    let release = release(version).unwrap_or_default();
    let of = format!("{what} is of Kubernetes {version}");
    if release >= KUBERNETES {
        None
    } else if release >= SWITCH {
        let off = "image volumes are off unless somebody has switched them on";
        Some(ImageVolumeSupport::Off(format!("{of}: before {major}.{minor}, {off}")))
    } else {
        Some(ImageVolumeSupport::No(format!("{of}, image volumes need {major}.{minor}")))
    }
}

/// `version` as a node has it: `containerd://2.1.4`.
fn runtime_lacks(name: &str, version: &str) -> Option<String> {
    let known = RUNTIMES.iter().find_map(|(runtime, least)| {
        let version = version.strip_prefix(runtime)?.strip_prefix("://")?;
        Some((runtime, least, version))
    });
    let Some((runtime, least, version)) = known else {
        return Some(format!("{name} runs {version:?}, which is not known to mount images"));
    };
    let has = release(version).is_some_and(|release| release >= *least);
    let (major, minor) = least;
    (!has).then(|| format!("{name} runs {runtime} {version}, image volumes need {major}.{minor}"))
}

/// The first two numbers of a version, which may have a `v` before it and anything behind.
fn release(version: &str) -> Option<(u32, u32)> {
    let digits = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().ok()
    };
    let (major, rest) = version.trim_start_matches('v').split_once('.')?;
    Some((digits(major)?, digits(rest)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(info: &Value) -> NodeInfo {
        let mut all = json!({
            "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "6.1", "osImage": "",
            "containerRuntimeVersion": "containerd://2.1.0", "kubeletVersion": "v1.35.0",
            "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
        });
        for (field, value) in info.as_object().unwrap() {
            all[field] = value.clone();
        }
        let metadata = json!({ "name": "n-1" });
        serde_json::from_value(json!({
            "metadata": metadata, "spec": {}, "status": { "nodeInfo": all, "images": [] },
        }))
        .unwrap()
    }

    #[test]
    fn nodes_with_a_kubelet_and_a_runtime_that_are_new_enough_lack_nothing() {
        for info in [
            json!({}),
            json!({ "kubeletVersion": "v1.36.3-gke.100", "containerRuntimeVersion": "containerd://2.3.7" }),
            json!({ "kubeletVersion": "v1.40.0+k3s1", "containerRuntimeVersion": "containerd://3.0.0-beta" }),
            json!({ "containerRuntimeVersion": "cri-o://1.33.0" }),
            json!({ "operatingSystem": "windows", "containerRuntimeVersion": "containerd://1.7" }),
        ] {
            assert_eq!(node_lacks(&node(&info)), None, "{info}");
        }
    }

    #[test]
    fn where_an_administrator_may_have_switched_them_on_nothing_is_certain() {
        for version in ["v1.31.0", "v1.33.13", "v1.34.9+k3s1"] {
            let lack = node_lacks(&node(&json!({ "kubeletVersion": version })));
            let said = format!(
                "node n-1 is of Kubernetes {version}: before 1.35, image volumes are off unless somebody has switched them on"
            );
            assert_eq!(lack, Some(ImageVolumeSupport::Off(said)));
        }
    }

    #[test]
    fn a_node_that_lacks_something_is_named_with_what_it_has_and_what_it_needs() {
        for (info, lack) in [
            (
                json!({ "kubeletVersion": "v1.30.9" }),
                "node n-1 is of Kubernetes v1.30.9, image volumes need 1.35",
            ),
            (
                json!({ "containerRuntimeVersion": "containerd://1.7.28~ds1" }),
                "node n-1 runs containerd 1.7.28~ds1, image volumes need 2.1",
            ),
            (
                json!({ "containerRuntimeVersion": "cri-o://1.32.1" }),
                "node n-1 runs cri-o 1.32.1, image volumes need 1.33",
            ),
            (
                json!({ "containerRuntimeVersion": "docker://27.0" }),
                "node n-1 runs \"docker://27.0\", which is not known to mount images",
            ),
            (
                json!({ "kubeletVersion": "unknown" }),
                "node n-1 is of Kubernetes unknown, image volumes need 1.35",
            ),
        ] {
            assert_eq!(node_lacks(&node(&info)), Some(ImageVolumeSupport::No(lack.to_owned())));
        }
        let silent = json!({ "metadata": { "name": "n-2" }, "spec": {} });
        let silent: NodeInfo = serde_json::from_value(silent).unwrap();
        let lack = ImageVolumeSupport::No("node n-2 does not say what it runs".to_owned());
        assert_eq!(node_lacks(&silent), Some(lack));
    }
}
