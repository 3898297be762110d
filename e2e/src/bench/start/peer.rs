//! The Go operator: its definition applied to a cluster of its own, its program beside the API server.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use clap::Args;

use crate::{
    environment::Environment, product::checkout, progress::Progress, trial::evidence::EVIDENCE,
};

/// Where the Go operator is.
#[derive(Debug, Clone, Args)]
pub(super) struct PeerArguments {
    /// The Go operator's program; without it, the Go operator is no contender.
    #[arg(long, value_name = "FILE", env = "PEER_OPERATOR", requires = "peer_crd")]
    peer_operator: Option<PathBuf>,
    /// The file of its definition of MiniClusters.
    #[arg(long, value_name = "FILE", env = "PEER_CRD", requires = "peer_operator")]
    peer_crd: Option<PathBuf>,
}

impl PeerArguments {
    /// Program and definition, if both are given.
    pub(super) fn files(&self) -> Option<(&Path, &Path)> {
        Some((self.peer_operator.as_deref()?, self.peer_crd.as_deref()?))
    }
}

/// The running operator; it ends when this goes out of scope.
#[derive(Debug)]
pub(super) struct Peer(Child);

impl Peer {
    /// Applies the definition and starts the program.
    pub(super) fn start(
        environment: &Environment,
        (program, definition): (&Path, &Path),
        progress: &Progress,
    ) -> Result<Self> {
        let file = definition.to_string_lossy();
        environment.kubectl(&["apply", "--server-side", "--filename", &file])?;
        environment.await_definition()?;
        let directory = checkout()?.join(EVIDENCE);
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("making {}", directory.display()))?;
        let path = directory.join("peer-operator.log");
        let log = File::create(&path).with_context(|| format!("making {}", path.display()))?;
        let errors = log.try_clone().context("opening the log twice")?;
        progress.say(&format!("the Go operator's log is {}", path.display()));
        let kubeconfig = environment.kubeconfig();
        let started = environment.run(async |_| {
            let mut command = Command::new(program);
            command.env("KUBECONFIG", kubeconfig).stdin(Stdio::null()).stdout(log).stderr(errors);
            command.spawn().with_context(|| format!("starting {}", program.display()))
        })?;
        Ok(Self(started))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // One that has ended already is no fault.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
