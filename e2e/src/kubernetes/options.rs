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
    /// Nobody: kwok plays the nodes that are made, and says that pods start and end.
    Simulated,
}
