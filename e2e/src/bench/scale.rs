//! `bench scale`: what many `MiniClusters`, and a large one, cost.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

/// What `bench scale` is asked for.
#[derive(Debug, Args)]
pub struct Arguments {}

impl Arguments {
    /// Measures, and writes what was found.
    pub fn run(&self) -> Result<ExitCode> {
        bail!("`bench scale` does not exist yet")
    }
}
