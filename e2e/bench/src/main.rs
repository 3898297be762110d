//! Measurements on a real cluster. Nothing asserts them: they say where the time goes.

mod namespace;
mod operator;
pub mod scale;
pub mod start;

use crate::kubernetes::{ClusterId, KubernetesVersion, Nodes, Options};
use crate::product::checkout;
use crate::progress::Progress;
use anyhow::{Context as _, Result};
use clap::Subcommand;
use comfy_table::{Table, presets};
use serde::Serialize;
use std::fs;
use std::process::ExitCode;

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

/// A cluster of this checkout beside that of its tests.
fn cluster(purpose: &str, nodes: Nodes) -> Result<Options> {
    let id = ClusterId::beside_that_of_this_checkout(purpose)?;
    Ok(Options { id, nodes, ..Options::of_version(KubernetesVersion::default())? })
}

/// A table of these rows in Markdown, aligned for the terminal; the first is the head.
fn table(rows: &[Vec<String>]) -> String {
    let mut rows = rows.iter();
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(rows.next().into_iter().flatten());
    format!("{}\n", table.add_rows(rows))
}

/// Writes `results` to `name`.json in docs/performance.
fn write(name: &str, results: &impl Serialize, progress: &Progress) -> Result<()> {
    let path = checkout()?.join("docs/performance").join(format!("{name}.json"));
    let document = serde_json::to_string_pretty(results).context("writing the results")?;
    fs::write(&path, document + "\n").with_context(|| format!("writing {}", path.display()))?;
    progress.say(&format!("written: {}", path.display()));
    Ok(())
}
