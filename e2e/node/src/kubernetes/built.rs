//! The programs that a cluster is made of.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::{
    options::{ContainerRuntime, Nodes},
    recipes,
    version::KubernetesVersion,
};
use crate::{cache::Cache, progress::Progress};

/// The newest containerd, and the newest without image volumes.
pub(super) const CONTAINERD: &str = "containerd/2.3";
pub(super) const OLD_CONTAINERD: &str = "containerd/2.0";

/// Where the built programs are, on this machine; each directory lies directly in [`Cache::built`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    /// etcd, kube-apiserver, kube-controller-manager, kube-proxy, kube-scheduler, kubectl, kubelet.
    pub(super) kubernetes: PathBuf,
    /// containerd, containerd-shim-runc-v2, ctr.
    pub(super) containerd: PathBuf,
    pub(super) coredns: PathBuf,
    pub(super) pause: PathBuf,
    /// Where nodes are simulated.
    pub(super) kwok: Option<PathBuf>,
    /// Where a node is to have no image volumes.
    pub(super) old_containerd: Option<PathBuf>,
}

impl Built {
    /// Builds what the cache does not have yet.
    pub fn ensure(
        cache: &Cache,
        version: KubernetesVersion,
        nodes: &Nodes,
        progress: &Progress,
    ) -> Result<Self> {
        let build = |source: &str| recipes::ensure(source, cache, progress);
        let old = nodes.runtimes().contains(&ContainerRuntime::WithoutImageVolumes);
        Ok(Self {
            kwok: (*nodes == Nodes::Simulated).then(|| build("kwok")).transpose()?,
            old_containerd: old.then(|| build(OLD_CONTAINERD)).transpose()?,
            pause: build("pause")?,
            containerd: build(CONTAINERD)?,
            coredns: build("coredns")?,
            kubernetes: build(&version.source())?,
        })
    }

    /// A directory's name in [`Cache::built`].
    pub(super) fn name_of(directory: &Path) -> String {
        directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The directory of a container runtime.
    pub(super) fn runtime(&self, runtime: &ContainerRuntime) -> Result<&Path> {
        match runtime {
            ContainerRuntime::Newest => Ok(&self.containerd),
            ContainerRuntime::WithoutImageVolumes => {
                self.old_containerd.as_deref().context("the old containerd was not built")
            }
        }
    }

    #[cfg(test)]
    pub(super) fn at(built: &Path) -> Self {
        Self {
            kubernetes: built.join("kubernetes"),
            containerd: built.join("containerd"),
            coredns: built.join("coredns"),
            pause: built.join("pause"),
            kwok: Some(built.join("kwok")),
            old_containerd: Some(built.join("old-containerd")),
        }
    }
}
