//! A cluster that runs: the way into it, and the images of its nodes.

use super::layout::{Layout, NodeLayout};
use super::namespaces::Namespaces;
use super::network::Network;
use super::recipes::Built;
use crate::images::image::{Image, full_name};
use crate::prelude::*;
use std::panic::resume_unwind;

/// A cluster that was ready when this value was made.
#[derive(Debug, Clone)]
pub struct Kubernetes {
    pub(super) layout: Layout,
    pub(super) namespaces: Namespaces,
    pub(super) built: Built,
}

impl Kubernetes {
    /// The administrator's kubeconfig; its server is reachable from the node's network only.
    pub fn kubeconfig(&self) -> &Path {
        &self.layout.kubeconfig
    }

    /// The API server's audit log: a line of JSON for each request of a service account outside of `kube-system`.
    pub fn audit_log(&self) -> PathBuf {
        self.layout.first().var().join("log/kubernetes/audit.log")
    }

    /// Moves the calling thread, and the threads and processes it starts from now on, into the first node's
    /// network, from which alone the API server, Services and pods can be reached. Threads that run
    /// already stay where they are, so this comes before an asynchronous runtime is made.
    pub fn enter_network(&self) -> Result<()> {
        self.namespaces.enter_network()
    }

    /// Lays a line between the first nodes of this cluster, of network `own`, and of `other`, of network `far`. A thread in
    /// the network of one reaches the API server of the other, too.
    pub fn link(&self, own: &Network, other: &Self, far: &Network) -> Result<()> {
        self.namespaces
            .link(own.addresses(), &other.namespaces, far.addresses())
            .context("laying a line between two clusters")
    }

    /// `kubectl` as administrator with these arguments.
    pub fn kubectl<A: AsRef<std::ffi::OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Command {
        let mut command = self.program(&self.built.kubernetes.join("kubectl"));
        command.args(arguments);
        command
    }

    /// `program`, which reaches the cluster by `KUBECONFIG`.
    pub fn program(&self, program: &Path) -> Command {
        let mut command = self.namespaces.enter(&["--net"]);
        command.arg(program).env("KUBECONFIG", &self.layout.kubeconfig);
        command
    }

    /// `ctr` of the first node's containerd, for the containers of pods.
    pub fn containerd(&self) -> Command {
        self.ctr(&self.layout.first())
    }

    /// Loads the image into every node under all these names.
    pub fn load_image(&self, image: &Image, names: &[&str]) -> Result<()> {
        self.on_each_node(|node| self.load_image_into(node, image, names))
    }

    /// Fetches an image from its registry for every node, by this machine's network: nodes cannot reach registries.
    pub fn pull_image(&self, name: &str) -> Result<()> {
        let reference = full_name(name);
        self.on_each_node(|node| {
            programs::run(self.ctr(node).args(["images", "pull", "--local", &reference]))
                .map(drop)
                .with_context(|| format!("pulling the image {reference} for {}", node.name))
        })
    }

    /// Does `work` for all nodes at the same time, and waits for all, even if one fails.
    fn on_each_node(&self, work: impl Fn(&NodeLayout) -> Result<()> + Sync) -> Result<()> {
        let nodes = self.layout.nodes();
        std::thread::scope(|scope| {
            let at_work: Vec<_> = nodes.iter().map(|node| scope.spawn(|| work(node))).collect();
            at_work
                .into_iter()
                .try_for_each(|it| it.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    }

    /// `ctr` for the images that the kubelet of this node sees.
    pub(super) fn ctr(&self, node: &NodeLayout) -> Command {
        let mut command = Command::new(self.built.containerd[0].join("ctr"));
        command.arg("--address").arg(node.containerd_socket()).arg("--namespace=k8s.io");
        command
    }

    /// Loads the image into one node, also under a name made of its contents.
    fn load_image_into(&self, node: &NodeLayout, image: &Image, names: &[&str]) -> Result<()> {
        let content_name = image.content_name();
        let filter = format!("name=={content_name}");
        let listed = programs::run(self.ctr(node).args(["images", "list", "--quiet", &filter]))
            .context("listing the node's images")?;
        if listed.stdout.is_empty() {
            programs::feed(self.ctr(node).args(["images", "import", "--local", "-"]), |stdin| {
                image.write_archive(&[&content_name], stdin)
            })
            .with_context(|| format!("loading the image {}", names.join(", ")))?;
        }
        for name in names.iter().filter(|name| **name != content_name) {
            let name = full_name(name);
            programs::run(self.ctr(node).args(["images", "tag", "--force", &content_name, &name]))
                .with_context(|| format!("naming an image {name}"))?;
        }
        Ok(())
    }
}
