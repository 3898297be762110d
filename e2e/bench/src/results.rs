//! The clusters of measurements, and what becomes of their results.

use anyhow::{Context as _, Result};
use comfy_table::{Table, presets};
use e2e::kubernetes::{ClusterId, KubernetesVersion, Nodes, Options};
use e2e::product::checkout;
use e2e::progress;
use serde::Serialize;
use std::{fmt, fs};

/// A cluster of this checkout beside that of its tests.
pub(crate) fn cluster(purpose: &str, nodes: Nodes) -> Result<Options> {
    let id = ClusterId::beside_that_of_this_checkout(purpose)?;
    Ok(Options { id, nodes, ..Options::of_version(KubernetesVersion::default())? })
}

/// A table of these rows in Markdown, aligned for the terminal; the first is the head.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let mut rows = rows.iter();
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(rows.next().into_iter().flatten());
    format!("{}\n", table.add_rows(rows))
}

/// Writes `results` to `name`.json in docs/performance.
pub(crate) fn write(name: &str, results: &impl Serialize) -> Result<()> {
    let path = checkout()?.join("docs/performance").join(format!("{name}.json"));
    let document = serde_json::to_string_pretty(results).context("writing the results")?;
    fs::write(&path, document + "\n").with_context(|| format!("writing {}", path.display()))?;
    progress::log(&format!("written: {}", path.display()));
    Ok(())
}

/// Several measurements of the same.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (least, most, count) = (*sorted.first()?, *sorted.last()?, sorted.len());
        let median = f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]);
        Some(Self { median, least, most })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.3} ({:.2} - {:.2})", self.median, self.least, self.most)
    }
}
