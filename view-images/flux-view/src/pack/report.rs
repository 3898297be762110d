//! The report of a packed view.

use super::contents::{Amount, Contents, Part};
use flux_agent::linking::machine_name;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

#[derive(Debug, Serialize)]
pub(crate) struct PackReport {
    view: PathBuf,
    flux: Option<String>,
    machine: String,
    parts: BTreeMap<Part, Amount>,
    total: Amount,
    left_out: Amount,
    pub(super) stripped: u64,
    pub(super) warnings: Vec<String>,
}

impl PackReport {
    pub(super) fn new(view: PathBuf, contents: &Contents) -> Self {
        Self {
            view,
            flux: contents.compiled.version.clone(),
            machine: machine_name(contents.machine),
            parts: BTreeMap::new(),
            total: Amount::default(),
            left_out: contents.left_out,
            stripped: 0,
            warnings: contents.warnings.clone(),
        }
    }

    pub(super) fn add(&mut self, part: Part, bytes: u64) {
        self.parts.entry(part).or_default().add(bytes);
        self.total.add(bytes);
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

impl fmt::Display for PackReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, amount: &Amount| {
            let size = megabytes(amount.bytes);
            writeln!(formatter, "{name:<11} {:>6} {size:>10}", amount.files)
        };
        for (part, amount) in &self.parts {
            row(&part.to_string(), amount)?;
        }
        row("total", &self.total)?;
        row("left out", &self.left_out)?;
        let version = self.flux.as_deref().unwrap_or("of unknown version");
        let (view, stripped) = (self.view.display(), megabytes(self.stripped));
        writeln!(formatter, "Flux {version} for {}, {stripped} stripped: {view}", self.machine)?;
        self.warnings.iter().try_for_each(|warning| writeln!(formatter, "warning: {warning}"))
    }
}
