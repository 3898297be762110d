//! What is asked of a cluster.

use super::{layout::ClusterId, network::Network};
use crate::cache::Cache;

/// What tells one cluster from another, and how it is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where programs and the cluster's state are kept.
    pub cache: Cache,
    /// Which cluster.
    pub id: ClusterId,
    /// Its addresses and names: one with others is another cluster.
    pub network: Network,
    /// Who runs the pods.
    pub nodes: Nodes,
}

/// Who runs the pods of a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Nodes {
    /// One node with kubelet and container runtime.
    #[default]
    Real,
    /// The same on a disk of its own, an ext4 file system with a journal: times are those of most nodes. On
    /// ext4 without one, which some virtual machines have, the kernel passes over all inodes that were
    /// deleted within minutes before it makes a file (`recently_deleted` in `fs/ext4/ialloc.c`), so that a
    /// pod pays for the files of those before it.
    RealWithDisk,
    /// Nobody: kwok plays the nodes that are made, and says that pods start and end.
    Simulated,
}
