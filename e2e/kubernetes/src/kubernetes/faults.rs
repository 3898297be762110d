//! Faults of programs and nodes of a running cluster, and how they end.

use super::cluster::Kubernetes;
use super::layout::NodeLayout;
use super::namespaces::Namespaces;
use super::options::Options;
use super::processes::{self, Process};
use super::{control_groups, start};
use crate::prelude::*;
use fs_err as fs;
use nix::sys::signal::Signal;
use nix::sys::statvfs::statvfs;
use serde_json::{Value, json};

/// Bytes that others on this machine may write before the disk is filled, without filling it.
const MARGIN: u64 = 1 << 30;
const FILLED: &str = "filled";

impl Kubernetes {
    /// Halts a program of the first node, such as `etcd`: it answers nothing. Its connections stay open, so that its
    /// clients continue as soon as it answers, without Kubernetes' own pauses, which grow to half a minute.
    pub fn halt(&self, program: &str) -> Result<()> {
        let (_, process) = self.processes_of(program)?;
        process.signal(Signal::SIGSTOP)
    }

    /// Ends [`Self::halt`].
    pub fn resume(&self, program: &str) -> Result<()> {
        let (around, process) = self.processes_of(program)?;
        process.signal(Signal::SIGCONT)?;
        // The program that waits for it is halted, too.
        around.signal(Signal::SIGCONT)
    }

    /// A program of the first node, after the one that brought it into the node's namespaces.
    fn processes_of(&self, name: &str) -> Result<(Process, Process)> {
        let around = processes::recorded(&self.layout.first().processes().join(name));
        let around = around.with_context(|| format!("{name} was not started"))?;
        let program = around.child().with_context(|| format!("{name} does not run"))?;
        Ok((around, program))
    }

    /// Names of the nodes; the first has the control plane.
    pub fn node_names(&self) -> Vec<String> {
        self.layout.nodes().iter().map(|node| node.name.clone()).collect()
    }

    /// Ends the node as a loss of power does: at once, its kubelet and all of its pods. What it has on its disk
    /// stays.
    pub fn lose_node(&self, name: &str) -> Result<()> {
        let node = self.further_node(name)?;
        Namespaces::end(&node).with_context(|| format!("ending {name}"))?;
        // The kubelet would wait three seconds for each group that outlives its container.
        control_groups::remove(&node.control_group)
    }

    /// Starts a node that was lost, and waits until it is ready. `options` are those that the cluster was
    /// started with.
    pub fn start_node(&self, options: &Options, name: &str) -> Result<()> {
        let node = self.further_node(name)?;
        ensure!(Namespaces::find(&node).is_none(), "{name} runs");
        progress::step(&format!("starting {name} again"), || start::restart(self, &node, options))
    }

    /// Configures the node's kubelet so that its disk is full with one GiB less than now, and starts the kubelet again;
    /// the node's pods go on.
    pub fn limit_disk(&self, options: &Options, name: &str) -> Result<()> {
        let node = self.further_node(name)?;
        let disk = statvfs(&node.var()).with_context(|| format!("looking at {name}'s disk"))?;
        let available = disk.blocks_available() * disk.fragment_size();
        let least = available.checked_sub(MARGIN).context("the disk is almost full")?;
        let file = node.configuration().join("kubelet.yaml");
        let mut configuration: Value = serde_saphyr::from_str(&fs::read_to_string(&file)?)
            .with_context(|| format!("understanding {}", file.display()))?;
        configuration["evictionHard"]["nodefs.available"] = json!(least.to_string());
        fs::write(&file, configuration.to_string())?;
        start::end_program(&node, "kubelet")?;
        start::start_program(&self.built, &node, options, "kubelet")
    }

    /// Ends a program of the first node. The pods go on.
    pub fn end_program(&self, program: &str) -> Result<()> {
        start::end_program(&self.layout.first(), program)
    }

    /// Starts a program of the first node that was ended. `options` are those that the cluster was started with.
    pub fn start_program(&self, options: &Options, program: &str) -> Result<()> {
        start::start_program(&self.built, &self.layout.first(), options, program)
    }

    /// Fills the node's disk up to the limit of [`Self::limit_disk`], even if the kubelet removes images.
    pub fn fill_disk(&self, name: &str) -> Result<()> {
        let file = self.further_node(name)?.var().join(FILLED);
        let size = (4 * MARGIN).to_string();
        programs::run(Command::new("fallocate").args(["--length", &size]).arg(file))?;
        Ok(())
    }

    /// Ends [`Self::fill_disk`].
    pub fn clear_disk(&self, name: &str) -> Result<()> {
        Ok(fs::remove_file(self.further_node(name)?.var().join(FILLED))?)
    }

    /// Cuts the node off from all others, as if its cable were pulled: its packets are lost, and its programs go on.
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
        let found = nodes.into_iter().find(|node| node.name == name);
        let node = found.with_context(|| format!("the cluster has no node {name}"))?;
        ensure!(!node.has_control_plane(), "{name} has the control plane: nothing goes on without");
        Ok(node)
    }
}
