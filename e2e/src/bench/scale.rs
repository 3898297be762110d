//! `bench scale`: what many MiniClusters, and a large one, cost.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

/// What `bench scale` is asked for.
#[derive(Debug, Args)]
pub struct Arguments {}

impl Arguments {
    /// Measures, and writes what was found.
    #[expect(clippy::unused_self, reason = "the arguments come with the measurement")]
    pub fn run(&self) -> Result<ExitCode> {
        bail!("`bench scale` does not exist yet")
    }
}
