//! What was measured, as a table and as a document.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::{manifest::Load, measure::Figures};
use crate::bench::table::render;

/// A column of the table, and how a row fills it.
type Column = (&'static str, fn(&Row) -> String);

static COLUMNS: [Column; 11] = [
    ("operator", |row| row.contender.to_owned()),
    ("load", |row| format!("{} x {}", row.miniclusters, row.pods)),
    ("Jobs s", |row| format!("{:.1}", row.figures.times.jobs)),
    ("Complete s", |row| format!("{:.1}", row.figures.times.complete)),
    ("said s", |row| {
        row.figures.times.reported.map_or_else(|| "-".to_owned(), |it| format!("{it:.1}"))
    }),
    ("cpu s", |row| format!("{:.2}", row.figures.processor_seconds)),
    ("cpu ms each", |row| format!("{:.1}", row.each(row.figures.processor_seconds * 1000.0))),
    ("requests", |row| row.figures.requests.all().to_string()),
    ("each", |row| format!("{:.1}", row.each(as_number(row.figures.requests.all())))),
    ("writes each", |row| format!("{:.1}", row.each(as_number(row.figures.requests.writes())))),
    ("RSS MiB before, after, peak", |row| {
        let figures = &row.figures;
        let all = [
            figures.memory_before.resident,
            figures.memory_after.resident,
            figures.memory_after.peak,
        ];
        all.map(mebibytes).join(" ")
    }),
];

/// All that was measured.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    contender: &'static str,
    miniclusters: u32,
    pods: u32,
    #[serde(flatten)]
    figures: Figures,
}

impl Row {
    fn each(&self, sum: f64) -> f64 {
        sum / f64::from(self.miniclusters)
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn as_number(count: u64) -> f64 {
    count as f64
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", as_number(bytes) / f64::from(1 << 20))
}

impl Report {
    /// Adds a measurement.
    pub(super) fn add(&mut self, contender: &'static str, load: Load, figures: Figures) {
        let Load { miniclusters, pods } = load;
        self.rows.push(Row { contender, miniclusters, pods, figures });
    }

    /// A row for each measurement.
    pub(super) fn text(&self) -> String {
        let title = COLUMNS.map(|(title, _)| title.to_owned()).to_vec();
        let rows = self.rows.iter().map(|row| COLUMNS.map(|(_, cell)| cell(row)).to_vec());
        render(&[title].into_iter().chain(rows).collect::<Vec<_>>())
    }

    /// Writes `scale.json` into `directory`.
    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory).context("making the directory")?;
        let document = serde_json::to_string_pretty(self).context("writing the results")?;
        fs::write(directory.join("scale.json"), document + "\n").context("writing scale.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::scale::{
        measure::{Figures, Times},
        process::Memory,
        requests::Requests,
    };
    use serde_json::Value;

    fn report() -> Report {
        let mut report = Report::default();
        for number in [10, 100, 1000] {
            let seconds = f64::from(number) / 10.0;
            let figures = Figures {
                created_seconds: 0.1,
                times: Times { jobs: seconds, complete: seconds + 4.0, reported: None },
                processor_seconds: seconds / 100.0,
                memory_before: Memory { resident: 1 << 24, anonymous: 1 << 23, peak: 1 << 24 },
                memory_after: Memory { resident: 1 << 25, anonymous: 1 << 24, peak: 1 << 25 },
                requests: Requests::default(),
            };
            report.add("this operator", Load { miniclusters: number, pods: 4 }, figures);
        }
        report
    }

    #[test]
    fn the_table_has_a_row_for_each_measurement() {
        let text = report().text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 3, "{text}");
        assert!(lines[0].starts_with("operator"), "{text}");
        assert!(lines[3].contains("1000 x 4") && lines[3].contains("104.0"), "{text}");
    }

    #[test]
    fn the_document_is_written_where_it_was_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let deeper = directory.path().join("a/b");
        report().write(&deeper).unwrap();
        let document = fs::read_to_string(deeper.join("scale.json")).unwrap();
        let document: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["rows"][2]["miniclusters"], 1000);
        assert_eq!(document["rows"][0]["complete_seconds"], 5.0);
    }
}
