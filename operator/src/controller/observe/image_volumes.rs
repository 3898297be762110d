//! Finds out whether pods can have image volumes (KEP-4639), from the API server's version and from what
//! each node says of its kubelet and its container runtime. It is asked in the background from the operator's start
//! on, and the last answer serves all Jobs that are made.

use crate::controller::decide::install::{ImageVolumeSupport, Lack};
use k8s_openapi::api::core::v1::{Node, NodeSystemInfo};
use kube::api::ListParams;
use kube::core::{ApiResource, Object};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Kubernetes has image volumes switched on from this release on (stable with 1.36).
const KUBERNETES: (u32, u32) = (1, 35);
/// From this release on an administrator may have switched them on: that is not to be seen.
const SWITCH: (u32, u32) = (1, 31);
/// Container runtimes and the releases from which on they mount images.
const RUNTIMES: [(&str, (u32, u32)); 2] = [("containerd", (2, 1)), ("cri-o", (1, 33))];
/// Nodes that are asked for at once: what a node says of its images is most of a request.
const PAGE: u32 = 100;
/// How long an answer is taken for granted. Nodes come and go all the time; other ones do not.
const GOOD_FOR: Duration = Duration::from_mins(5);
/// The same where it is not certain.
const UNCERTAIN_FOR: Duration = Duration::from_secs(30);
/// Longest time for an answer, of 50 pages perhaps.
const PATIENCE: Duration = Duration::from_mins(2);

/// The last answer.
#[derive(Debug, Default)]
pub(crate) struct ImageVolumes(Mutex<Option<ImageVolumeSupport>>);

impl ImageVolumes {
    /// What is known. No MiniCluster waits until more is.
    pub(crate) fn support(&self) -> ImageVolumeSupport {
        let unknown = || Err(Lack::perhaps("the operator has just begun to ask the nodes"));
        self.0.lock().clone().unwrap_or_else(unknown)
    }

    /// Asks the API server, again and again.
    pub(crate) async fn keep_asking(&self, client: &Client) -> Infallible {
        loop {
            let late = || Err(Lack::perhaps("the API server did not say in time what it has"));
            let support = timeout(PATIENCE, ask(client)).await.unwrap_or_else(|_| late());
            let is_certain = support.as_ref().err().is_none_or(|lack| lack.is_certain);
            let before = self.0.lock().replace(support.clone());
            if before.as_ref() != Some(&support) {
                tracing::info!(?support, "image volumes");
            }
            sleep(if is_certain { GOOD_FOR } else { UNCERTAIN_FOR }).await;
        }
    }
}

type NodeInfo = Object<IgnoredAny, NodeStatus>;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeStatus {
    node_info: Option<NodeSystemInfo>,
}

async fn ask(client: &Client) -> ImageVolumeSupport {
    let version = client.apiserver_version().await;
    let version = version.map_err(|error| unknown("read the API server's version", &error))?;
    kubernetes_has("the API server", &version.git_version)?;
    let api: Api<NodeInfo> = Api::all_with(client.clone(), &ApiResource::erase::<Node>(&()));
    let mut page = ListParams::default().limit(PAGE);
    let mut any = false;
    loop {
        let nodes = api.list(&page).await.map_err(|error| unknown("list the nodes", &error))?;
        any |= !nodes.items.is_empty();
        nodes.items.iter().try_for_each(node_has)?;
        page.continue_token = nodes.metadata.continue_.filter(|token| !token.is_empty());
        if page.continue_token.is_none() {
            // They come when there is something to run.
            return if any { Ok(()) } else { Err(Lack::perhaps("there is no node yet")) };
        }
    }
}

fn unknown(what: &str, error: &kube::Error) -> Lack {
    let forbidden = matches!(error, kube::Error::Api(status) if status.is_forbidden());
    Lack::perhaps(if forbidden {
        format!("the operator may not {what}")
    } else {
        format!("the operator could not {what}: {error}")
    })
}

/// Whether `node` can mount images; true where it runs something else than Linux: no pod of ours gets there.
fn node_has(node: &NodeInfo) -> ImageVolumeSupport {
    let name = format!("node {}", node.name_any());
    let Some(info) = node.status.as_ref().and_then(|status| status.node_info.as_ref()) else {
        return Err(Lack::surely(format!("{name} does not say what it runs")));
    };
    if !info.operating_system.is_empty() && info.operating_system != "linux" {
        return Ok(());
    }
    kubernetes_has(&name, &info.kubelet_version)?;
    runtime_has(&name, &info.container_runtime_version)
}

fn kubernetes_has(what: &str, version: &str) -> ImageVolumeSupport {
    let (major, minor) = KUBERNETES;
    let release = release(version).unwrap_or_default();
    let of = format!("{what} is of Kubernetes {version}");
    if release >= KUBERNETES {
        Ok(())
    } else if release >= SWITCH {
        let off = "image volumes are off unless somebody has switched them on";
        Err(Lack::perhaps(format!("{of}: before {major}.{minor}, {off}")))
    } else {
        Err(Lack::surely(format!("{of}, image volumes need {major}.{minor}")))
    }
}

/// `version` as a node has it: `containerd://2.1.4`.
fn runtime_has(name: &str, version: &str) -> ImageVolumeSupport {
    for (runtime, least) in RUNTIMES {
        let of_it = version.strip_prefix(runtime).and_then(|rest| rest.strip_prefix("://"));
        let Some(version) = of_it else { continue };
        let (major, minor) = least;
        let lack =
            || format!("{name} runs {runtime} {version}, image volumes need {major}.{minor}");
        let has = release(version).is_some_and(|release| release >= least);
        return if has { Ok(()) } else { Err(Lack::surely(lack())) };
    }
    Err(Lack::surely(format!("{name} runs {version:?}, which is not known to mount images")))
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
    use serde_json::json;

    fn node(kubelet: &str, runtime: &str, system: &str) -> NodeInfo {
        let info = json!({
            "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "6.1", "osImage": "",
            "containerRuntimeVersion": runtime, "kubeletVersion": kubelet,
            "kubeProxyVersion": "", "operatingSystem": system, "architecture": "amd64",
        });
        let status = json!({ "nodeInfo": info, "images": [] });
        let metadata = json!({ "name": "n-1" });
        serde_json::from_value(json!({ "metadata": metadata, "spec": {}, "status": status }))
            .unwrap()
    }

    #[test]
    fn nodes_with_a_kubelet_and_a_runtime_that_are_new_enough_lack_nothing() {
        for (kubelet, runtime, system) in [
            ("v1.35.0", "containerd://2.1.0", "linux"),
            ("v1.36.3-gke.100", "containerd://2.3.7", "linux"),
            ("v1.40.0+k3s1", "containerd://3.0.0-beta", "linux"),
            ("v1.35.0", "cri-o://1.33.0", "linux"),
            ("v1.35.0", "containerd://1.7", "windows"),
        ] {
            assert_eq!(node_has(&node(kubelet, runtime, system)), Ok(()), "{kubelet} {runtime}");
        }
    }

    #[test]
    fn a_node_that_lacks_something_is_named_with_what_it_has_and_what_it_needs() {
        let new = "containerd://2.1.0";
        let off = ": before 1.35, image volumes are off unless somebody has switched them on";
        let old = ", image volumes need 1.35";
        let at_least = |what: &str| format!("runs {what}, image volumes need");
        let unknown = "runs \"docker://27.0\", which is not known to mount images";
        for (kubelet, runtime, is_certain, lack) in [
            ("v1.31.0", new, false, format!("is of Kubernetes v1.31.0{off}")),
            ("v1.34.9+k3s1", new, false, format!("is of Kubernetes v1.34.9+k3s1{off}")),
            ("v1.30.9", new, true, format!("is of Kubernetes v1.30.9{old}")),
            ("unknown", new, true, format!("is of Kubernetes unknown{old}")),
            (
                "v1.35.0",
                "containerd://1.7.28~ds1",
                true,
                at_least("containerd 1.7.28~ds1") + " 2.1",
            ),
            ("v1.35.0", "cri-o://1.32.1", true, at_least("cri-o 1.32.1") + " 1.33"),
            ("v1.35.0", "docker://27.0", true, unknown.to_owned()),
        ] {
            let lack = Lack { why: format!("node n-1 {lack}"), is_certain };
            assert_eq!(node_has(&node(kubelet, runtime, "linux")), Err(lack));
        }
        let silent = json!({ "metadata": { "name": "n-2" }, "spec": {} });
        let silent: NodeInfo = serde_json::from_value(silent).unwrap();
        let lack = "node n-2 does not say what it runs".to_owned();
        assert_eq!(node_has(&silent), Err(Lack::surely(lack)));
    }
}
