//! Measurements on a real cluster: `cargo bench-flux`. They assert nothing: they report where the time goes.

mod images;
mod namespace;
mod operator;
mod scale;
mod start;

use anyhow::{Context as _, Result};
use clap::Parser;
use comfy_table::{Table, presets};
use e2e::kubernetes::{ClusterId, KubernetesVersion, Nodes, Options};
use e2e::product::checkout;
use e2e::progress::Progress;
use serde::Serialize;
use std::fs;
use std::process::ExitCode;

/// Measure on a cluster of this machine.
#[derive(Debug, Parser)]
#[command(name = "bench-flux")]
enum Command {
    /// Measure how long a MiniCluster takes from `kubectl apply` to its command's end, beside other ways to
    /// start the same.
    Start(start::Arguments),
    /// Measure what many MiniClusters, and a large one, cost.
    Scale(scale::Arguments),
}

fn main() -> ExitCode {
    let measured = match Command::parse() {
        Command::Start(arguments) => arguments.run(),
        Command::Scale(arguments) => arguments.run(),
    };
    e2e::commands::exit_code(measured)
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
    progress.log(&format!("written: {}", path.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_of_the_page_exist() {
        let page = include_str!("../../../docs/performance.md").replace("\\\n", " ");
        let typed: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("$ cargo ")).collect();
        for line in &typed {
            Command::try_parse_from(line.split_whitespace()).unwrap();
        }
        assert_eq!(typed.len(), 2, "{typed:?}");
    }
}
