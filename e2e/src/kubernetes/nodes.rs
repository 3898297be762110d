//! What can be done with single nodes while the cluster runs.

use anyhow::{Context as _, Result, ensure};

use super::{
    Kubernetes, Options, control_groups, layout::NodeLayout, namespaces::Namespaces, start,
};
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
        Namespaces::end(&node, &options.cache.built()).with_context(|| format!("ending {name}"))?;
        // The kubelet would wait three seconds for each group that outlives its container.
        control_groups::remove(node.control_group())
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

    /// Cuts the node off from all others, as if its cable were pulled: what is sent to it or by it is lost, and
    /// what runs there goes on.
    pub fn cut_off(&self, name: &str) -> Result<()> {
        self.namespaces.set_port(&self.further_node(name)?, false)
    }

    /// Ends [`Self::cut_off`].
    pub fn connect(&self, name: &str) -> Result<()> {
        self.namespaces.set_port(&self.further_node(name)?, true)
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
