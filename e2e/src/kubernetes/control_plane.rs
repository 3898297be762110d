//! What can be done to programs of the control plane while the cluster runs.

use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;

use super::{
    Kubernetes, Options, components,
    processes::{self, Process},
    start,
};
use crate::{
    programs,
    wait::{Look, until},
};

/// The API server's record among the processes of its node.
const API_SERVER: &str = "kube-apiserver";
/// How long the API server may take to start.
const PATIENCE: Duration = Duration::from_mins(2);

/// A program of the control plane that can be halted.
#[derive(Debug, Clone, Copy)]
pub enum Program {
    /// What the API server keeps its objects in.
    Etcd,
    /// The cluster's DNS.
    Dns,
}

impl Program {
    /// Its record among the processes of its node.
    const fn record(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Dns => "coredns",
        }
    }
}

impl Kubernetes {
    /// Ends the API server at once. What it keeps is in etcd.
    pub fn lose_api_server(&self) -> Result<()> {
        let (around, program) = self.processes_of(API_SERVER)?;
        program.end()?;
        around.end()
    }

    /// Starts the API server that was lost, and waits until it is ready. `options` are those that the cluster
    /// was started with.
    pub fn start_api_server(&self, options: &Options) -> Result<()> {
        let component = components::api_server(&self.built, &options.network);
        start::start_programs(&self.layout.first(), &self.namespaces, vec![component])?;
        until("the API server to be ready again", PATIENCE, || {
            let ready = ["get", "--raw=/readyz", "--request-timeout=5s"];
            let answer = programs::run(&mut self.kubectl(ready));
            Ok(answer.map_or_else(|it| Look::NotYet(format!("{it:#}")), |_| Look::Ready(())))
        })
    }

    /// Halts a program: its connections stay, and it answers nothing.
    pub fn halt(&self, program: Program) -> Result<()> {
        let (_, process) = self.processes_of(program.record())?;
        process.signal(Signal::SIGSTOP)
    }

    /// Ends [`Self::halt`].
    pub fn resume(&self, program: Program) -> Result<()> {
        let (around, process) = self.processes_of(program.record())?;
        process.signal(Signal::SIGCONT)?;
        // It halts with what it waits for.
        around.signal(Signal::SIGCONT)
    }

    /// A program of the first node, after the one that brought it into the node's namespaces.
    fn processes_of(&self, record: &str) -> Result<(Process, Process)> {
        let file = self.layout.first().processes().join(record);
        let around = processes::recorded(&file);
        let around = around.with_context(|| format!("{record} was not started"))?;
        let program = around.child().with_context(|| format!("{record} does not run"))?;
        Ok((around, program))
    }
}
