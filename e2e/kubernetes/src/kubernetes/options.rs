//! Options of a cluster.

use super::layout::ClusterId;
use super::network::Network;
use super::version::KubernetesVersion;
use crate::cache::Cache;
use anyhow::Result;

/// The name and the setup of a cluster.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where programs and the cluster's state are.
    pub cache: Cache,
    pub id: ClusterId,
    /// Its addresses and names: one with others is another cluster.
    pub network: Network,
    pub version: KubernetesVersion,
    pub nodes: Nodes,
    /// Kubernetes' own PodGroups, with topologies, are switched on: beta and alpha of 1.37, off by default.
    pub native_gangs: bool,
    /// The kubelets' CPU manager is static: it gives processors to Guaranteed pods alone.
    pub static_cpus: bool,
}

impl Options {
    /// This checkout's cluster of this version with the default options.
    pub fn of_version(version: KubernetesVersion) -> Result<Self> {
        Ok(Self { version, ..Self::new(Cache::locate()?, id_of_version(version)?) })
    }

    pub(super) fn new(cache: Cache, id: ClusterId) -> Self {
        let (network, nodes) = (Network::default(), Nodes::default());
        let version = KubernetesVersion::default();
        Self { cache, id, network, version, nodes, native_gangs: false, static_cpus: false }
    }
}

/// This checkout's cluster of this version: each has its own, so that one does not end the other.
pub fn id_of_version(version: KubernetesVersion) -> Result<ClusterId> {
    if version == KubernetesVersion::default() {
        return Ok(ClusterId::of_this_checkout());
    }
    ClusterId::beside_that_of_this_checkout(&version.to_string().replace('.', "-"))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nodes {
    /// The node with the control plane, which has the newest container runtime, and one with each of these.
    Real(Vec<ContainerRuntime>),
    /// One node on a disk of its own, an ext4 file system with a journal, so that times are those of most nodes. Some
    /// virtual machines have ext4 without a journal: there the kernel skips inodes that were deleted within the last
    /// minutes when it makes a file (`recently_deleted` in `fs/ext4/ialloc.c`), so that the files of earlier pods slow
    /// down later ones.
    RealWithDisk,
    /// No nodes: kwok simulates those that somebody creates, and reports that pods start and end.
    Simulated,
}

impl Default for Nodes {
    fn default() -> Self {
        Self::of(1)
    }
}

impl Nodes {
    /// So many nodes that are all the same; at least one.
    pub fn of(count: usize) -> Self {
        Self::Real(vec![ContainerRuntime::Newest; count.saturating_sub(1)])
    }

    /// The number of nodes with namespaces of their own; simulated nodes share one.
    pub fn count(&self) -> usize {
        self.runtimes().len()
    }

    pub(super) fn runtimes(&self) -> Vec<ContainerRuntime> {
        let further = match self {
            Self::Real(further) => further.as_slice(),
            Self::RealWithDisk | Self::Simulated => &[],
        };
        [&[ContainerRuntime::Newest], further].concat()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerRuntime {
    Newest,
    /// containerd 2.0, the last before 2.1, from which on images can be volumes.
    WithoutImageVolumes,
}

impl ContainerRuntime {
    /// The directory below `e2e/go` that it is built from.
    pub(super) const fn source(self) -> &'static str {
        match self {
            Self::Newest => "containerd/2.3",
            Self::WithoutImageVolumes => "containerd/2.0",
        }
    }
}
