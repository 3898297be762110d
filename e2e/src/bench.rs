//! Measurements on a real cluster. Nothing asserts them: they say where the time goes.

pub mod scale;
pub mod start;
mod table;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// What can be measured.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Measure how long a MiniCluster takes from `kubectl apply` to its command's end, beside other ways to
    /// start the same.
    Start(start::Arguments),
    /// Measure what many MiniClusters, and a large one, cost.
    Scale(scale::Arguments),
}

impl BenchCommand {
    /// Measures what was asked for.
    pub fn run(&self) -> Result<ExitCode> {
        match self {
            Self::Start(arguments) => arguments.run(),
            Self::Scale(arguments) => arguments.run(),
        }
    }
}
