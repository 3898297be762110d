//! The programs that a cluster is made of.

use super::options::Nodes;
use super::recipes::go_programs;
use super::version::KubernetesVersion;
use crate::cache::Cache;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Where the built programs are, on this machine; each directory lies directly in [`Cache::built`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    /// etcd, kube-apiserver, kube-controller-manager, kube-proxy, kube-scheduler, kubectl, kubelet.
    pub(super) kubernetes: PathBuf,
    /// containerd, containerd-shim-runc-v2, ctr of each node, the first of which has the newest.
    pub(super) containerd: Vec<PathBuf>,
    pub(super) coredns: PathBuf,
    pub(super) pause: PathBuf,
    /// Only for simulated nodes.
    pub(super) kwok: Option<PathBuf>,
}

impl Built {
    /// Builds what the cache does not have yet.
    pub fn ensure(cache: &Cache, version: KubernetesVersion, nodes: &Nodes) -> Result<Self> {
        let build = |source: &str| go_programs(source, cache);
        let runtimes = nodes.runtimes().into_iter();
        Ok(Self {
            kwok: (*nodes == Nodes::Simulated).then(|| build("kwok")).transpose()?,
            pause: build("pause")?,
            containerd: runtimes.map(|it| build(it.source())).collect::<Result<_>>()?,
            coredns: build("coredns")?,
            kubernetes: build(&version.source())?,
        })
    }

    pub(super) fn name_of(directory: &Path) -> String {
        directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}
