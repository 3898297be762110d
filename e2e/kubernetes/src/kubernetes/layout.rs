//! Every path of a cluster and its nodes: outside their namespaces, on this machine, and inside them.
//!
//! A node has a mount namespace of its own, in which `/run` and `/var` are directories of its state. So its programs use
//! the usual paths, do not touch the machine's own `/run` and `/var`, and do not depend on the place of the cache.

use super::network::MOST_NODES;
use super::processes::{self, Process};
use crate::cache::{CACHE_VARIABLE, Cache};
use anyhow::{Result, ensure};
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};

/// Longest path of a Unix socket: `sun_path` of `unix(7)` without its final zero byte.
const SOCKET_PATH_LIMIT: usize = 107;

/// The name of a cluster, unique on one machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterId(String);

impl ClusterId {
    /// Another cluster of this checkout. `purpose` is 1 to 7 lower-case letters, digits and dashes.
    pub fn beside_that_of_this_checkout(purpose: &str) -> Result<Self> {
        Self::named(&format!("{}-{purpose}", Self::of_this_checkout().0))
    }

    /// Whether it is a cluster of this checkout, or one beside it.
    pub fn is_of_this_checkout(&self) -> bool {
        self.0.split('-').next() == Some(&Self::of_this_checkout().0)
    }

    /// The cluster of the checkout that this program was built from: a short hash of its path.
    pub fn of_this_checkout() -> Self {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self(short_hash(package.ancestors().nth(2).unwrap_or(package)))
    }

    /// A name of the user's choice: 1 to 16 lower-case letters, digits and dashes.
    pub fn named(name: &str) -> Result<Self> {
        let fits = (1..=16).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        ensure!(fits, "cluster id {name:?} must be 1 to 16 of a-z, 0-9 and -");
        Ok(Self(name.to_owned()))
    }

    /// The text of file names.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A hash of a path: eight hexadecimal digits.
fn short_hash(path: &Path) -> String {
    format!("{:x}", Sha256::digest(path.as_os_str().as_encoded_bytes()))[..8].to_owned()
}

/// Paths of one cluster's state on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// The directory that holds all state and goes away with the cluster.
    pub(crate) state: PathBuf,
    /// The process that starts or ends the cluster locks this file; it outlives the state.
    pub(crate) lock: PathBuf,
    /// The control group above all of the cluster's pods, as seen from the control groups' root: another
    /// one for each cache, which may hold clusters of the same id.
    pub(crate) control_group: String,
    pub(crate) kubeconfig: PathBuf,
    /// What the cluster was made from, written when it is ready.
    pub(crate) ready_mark: PathBuf,
}

impl Layout {
    /// Fails if a socket's path would be too long, or if the node's own directories would hide the cache.
    pub(crate) fn new(cache: &Cache, id: &ClusterId) -> Result<Self> {
        let clusters = cache.clusters();
        let state = clusters.join(id.as_str());
        let layout = Self {
            kubeconfig: state.join("kubeconfig"),
            ready_mark: state.join("ready"),
            state,
            lock: clusters.join(format!(".{}.lock", id.as_str())),
            control_group: format!("flux-e2e-{}-{}", short_hash(&clusters), id.as_str()),
        };
        ensure!(
            !clusters.starts_with("/run"),
            "{} cannot hold a cluster, whose own /run would hide it; name another by {CACHE_VARIABLE}",
            clusters.display()
        );
        let socket = layout.first().containerd_socket();
        ensure!(
            socket.as_os_str().len() <= SOCKET_PATH_LIMIT,
            "{} is too long for a socket; name a shorter cache directory by {CACHE_VARIABLE}",
            socket.display()
        );
        Ok(layout)
    }

    /// The place of each node that a cluster can have, the first with the control plane; nothing may be there.
    pub(crate) fn places(&self) -> Vec<NodeLayout> {
        (0..MOST_NODES).map(|position| self.node(position)).collect()
    }

    /// The nodes that were made, the one with the control plane first.
    pub(crate) fn nodes(&self) -> Vec<NodeLayout> {
        self.places().into_iter().filter(|node| node.state.exists()).collect()
    }

    pub(crate) fn first(&self) -> NodeLayout {
        self.node(0)
    }

    fn node(&self, position: usize) -> NodeLayout {
        let name = format!("node-{}", position + 1);
        NodeLayout {
            state: self.state.join(&name),
            control_group: format!("{}/{name}", self.control_group),
            position,
            name,
        }
    }

    /// All of the nodes' processes that were started, by what they are and where.
    pub(crate) fn processes(&self) -> Vec<(String, Process)> {
        let of_node = |node: NodeLayout| {
            let recorded = processes::all_recorded(&node.processes()).into_iter();
            recorded.map(move |(program, it)| (format!("{program} of {}", node.name), it))
        };
        self.nodes().into_iter().flat_map(of_node).collect()
    }
}

/// Paths of one node's state on this machine.
#[derive(Debug, Clone)]
pub(crate) struct NodeLayout {
    pub(crate) state: PathBuf,
    /// The control group above all of the node's pods, as seen from the control groups' root.
    pub(crate) control_group: String,
    /// 0 is that of the control plane.
    pub(crate) position: usize,
    pub(crate) name: String,
}

impl NodeLayout {
    pub(crate) fn has_control_plane(&self) -> bool {
        self.position == 0
    }

    /// The directory that is `/var` inside.
    pub(crate) fn var(&self) -> PathBuf {
        self.state.join("var")
    }

    /// Where certificates, kubeconfigs and configuration files are, which is `/run/node` inside.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.state.join("run/node")
    }

    pub(crate) fn certificates(&self) -> PathBuf {
        self.configuration().join("pki")
    }

    pub(crate) fn log(&self, program: &str) -> PathBuf {
        self.state.join("log").join(format!("{program}.log"))
    }

    /// One file for each process that was started.
    pub(crate) fn processes(&self) -> PathBuf {
        self.state.join("processes")
    }

    /// containerd's socket, reachable from outside too.
    pub(crate) fn containerd_socket(&self) -> PathBuf {
        self.state.join("run/containerd/containerd.sock")
    }
}
