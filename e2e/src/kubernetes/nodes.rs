//! What can be done with single nodes while the cluster runs.

use anyhow::{Context as _, Result, ensure};

use super::{Kubernetes, Options, layout::NodeLayout, namespaces::Namespaces, start};
use crate::progress::Progress;

impl Kubernetes {
    /// Names of the nodes; the first has the control plane.
    pub fn node_names(&self) -> Vec<String> {
        self.layout.nodes().iter().map(|node| node.name().to_owned()).collect()
    }

    /// Ends the node as a loss of power does: at once, its kubelet and all of its pods. What it has on its disk
    /// stays. `options` are those that the cluster was started with.
    pub fn lose_node(&self, options: &Options, name: &str) -> Result<()> {
        let node = self.further_node(name)?;
        Namespaces::end(&node, &options.cache.built()).with_context(|| format!("ending {name}"))
    }

    /// Starts a node that was lost, and waits until it is ready. `options` are those that the cluster was
    /// started with.
    pub fn start_node(&self, options: &Options, name: &str, progress: &Progress) -> Result<()> {
        let node = self.further_node(name)?;
        ensure!(Namespaces::find(&node).is_none(), "{name} runs");
        let what = format!("starting {name} again");
        progress.step(&what, || {
            start::start_again(&self.layout, &node, &self.namespaces, &self.built, options)
        })
    }

    /// Cuts the node off from all others: what is sent to it or by it is lost without a word.
    pub fn cut_off(&self, name: &str) -> Result<()> {
        self.namespaces.cut_off(&self.further_node(name)?, true)
    }

    /// Ends [`Self::cut_off`].
    pub fn connect(&self, name: &str) -> Result<()> {
        self.namespaces.cut_off(&self.further_node(name)?, false)
    }

    /// The node of this name, without which the others can be.
    fn further_node(&self, name: &str) -> Result<NodeLayout> {
        let nodes = self.layout.nodes();
        let found = nodes.into_iter().find(|node| node.name() == name);
        let node = found.with_context(|| format!("the cluster has no node {name}"))?;
        ensure!(!node.has_control_plane(), "{name} has the control plane: nothing goes on without");
        Ok(node)
    }
}
