//! An operator as a process of this machine: tests can measure, kill and start it at any moment, without the kubelet's
//! pauses.

use crate::product::checkout;
use crate::programs;
use crate::trial::evidence::EVIDENCE;
use anyhow::{Context as _, Result, bail};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Arguments of an operator that runs beside others on this machine, with metrics for measurements.
pub const ARGUMENTS: [&str; 4] = [
    "run",
    "--metrics-bind=127.0.0.1:18080",
    "--metrics-secure=false",
    "--health-bind=127.0.0.1:18081",
];

/// A running operator; it is killed when this is dropped.
#[derive(Debug)]
pub struct OperatorProcess {
    process: Child,
    log: PathBuf,
}

impl OperatorProcess {
    /// Starts it, with its log at the end of the evidence's file of this name.
    pub fn start(command: &mut Command, log: &str) -> Result<Self> {
        let directory = checkout()?.join(EVIDENCE);
        fs::create_dir_all(&directory)
            .with_context(|| format!("making {}", directory.display()))?;
        let log = directory.join(log);
        let opening = || format!("opening {}", log.display());
        let output = File::options().create(true).append(true).open(&log);
        let output = output.with_context(opening)?;
        let errors = output.try_clone().with_context(opening)?;
        let process = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
        Ok(Self { process: process.context("starting an operator")?, log })
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Fails with the end of its log where it has ended by itself.
    pub fn check(&mut self) -> Result<()> {
        let ended = self.process.try_wait().context("looking at the operator")?;
        let Some(status) = ended else { return Ok(()) };
        bail!("the operator has ended with {status}:\n{}", programs::tail(&self.log, 15))
    }

    /// Kills it, as the kernel does when memory is short. Fails where it has ended by itself.
    pub fn kill(mut self) -> Result<()> {
        self.check()
    }
}

impl Drop for OperatorProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
