//! What can be done to programs of the control plane while the cluster runs.

use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;

use super::{
    Kubernetes,
    processes::{self, Process},
};

/// A program of the control plane.
#[derive(Debug, Clone, Copy)]
pub enum Program {
    /// The API server.
    ApiServer,
    /// What it keeps its objects in.
    Etcd,
    /// The cluster's DNS.
    Dns,
}

impl Kubernetes {
    /// Halts a program: it answers nothing. Its connections stay, so that who has waited for an answer goes on as
    /// soon as there is one, and not after one of Kubernetes' own pauses, which grow to half a minute.
    pub fn halt(&self, program: Program) -> Result<()> {
        let (_, process) = self.processes_of(program)?;
        process.signal(Signal::SIGSTOP)
    }

    /// Ends [`Self::halt`].
    pub fn resume(&self, program: Program) -> Result<()> {
        let (around, process) = self.processes_of(program)?;
        process.signal(Signal::SIGCONT)?;
        // It halts with what it waits for.
        around.signal(Signal::SIGCONT)
    }

    /// A program of the first node, after the one that brought it into the node's namespaces.
    fn processes_of(&self, program: Program) -> Result<(Process, Process)> {
        let name = match program {
            Program::ApiServer => "kube-apiserver",
            Program::Etcd => "etcd",
            Program::Dns => "coredns",
        };
        let around = processes::recorded(&self.layout.first().processes().join(name));
        let around = around.with_context(|| format!("{name} was not started"))?;
        let program = around.child().with_context(|| format!("{name} does not run"))?;
        Ok((around, program))
    }
}
