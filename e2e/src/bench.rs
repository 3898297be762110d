//! Measurements on a real cluster. Nothing asserts them: they say where the time goes.

mod operator;
pub mod scale;
pub mod start;
mod table;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::{product::checkout, progress::Progress};

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

/// What every measurement is asked for.
#[derive(Debug, Args)]
struct Common {
    /// The Go operator's program; without it, the Go operator is not measured.
    #[arg(long, value_name = "FILE", env = "PEER_OPERATOR", requires = "peer_crd")]
    peer_operator: Option<PathBuf>,
    /// The file of the Go operator's CRD.
    #[arg(long, value_name = "FILE", env = "PEER_CRD", requires = "peer_operator")]
    peer_crd: Option<PathBuf>,
    /// Where the results are written; by default docs/performance of this checkout.
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
}

impl Common {
    /// Program and CRD of the Go operator, if they are given.
    fn peer(&self) -> Option<(&Path, &Path)> {
        Some((self.peer_operator.as_deref()?, self.peer_crd.as_deref()?))
    }

    /// Writes `results` to `name`.json.
    fn write(&self, name: &str, results: &impl Serialize, progress: &Progress) -> Result<()> {
        let directory = match &self.output {
            Some(directory) => directory.clone(),
            None => checkout()?.join("docs/performance"),
        };
        let path = directory.join(format!("{name}.json"));
        let document = serde_json::to_string_pretty(results).context("writing the results")?;
        fs::create_dir_all(&directory)
            .and_then(|()| fs::write(&path, document + "\n"))
            .with_context(|| format!("writing {}", path.display()))?;
        progress.say(&format!("written: {}", path.display()));
        Ok(())
    }
}
