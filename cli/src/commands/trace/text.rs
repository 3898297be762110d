//! The chart as text.

use super::chart::{Chart, RUN, Row, SCHEDULE, START};
use crate::commands::status::milliseconds;
use crate::output::{cells, or_dash, paint, table};
use anstyle::AnsiColor;
use flux_contract::phase;
use std::fmt::Write as _;

const MIN_WIDTH: usize = 16;

const GAP: usize = 2;

/// How segments look: their names, colour, character and description.
type Kind = (&'static [&'static str], AnsiColor, &'static str, &'static str);

const PREPARE: Kind = (&[], AnsiColor::Blue, "▒", "prepares");

const KINDS: [Kind; 6] = [
    (&[SCHEDULE], AnsiColor::Red, "·", "waits for a node"),
    (&[START], AnsiColor::Yellow, "░", "images, volumes"),
    PREPARE,
    (&[phase::QUORUM], AnsiColor::Cyan, "▓", "joins"),
    (&[phase::COMMAND, RUN], AnsiColor::Green, "█", "runs"),
    (&[phase::SHUTDOWN, phase::POST], AnsiColor::Magenta, "▚", "ends"),
];

const HEADER: [&str; 3] = ["RANK", "END", "NODE"];

/// A line for each rank, and a legend. Kinds of segments differ by character as well as by colour.
pub(super) fn text(chart: &Chart, columns: usize) -> String {
    let rows: Vec<[String; 3]> = chart.rows.iter().map(facts).collect();
    let used: usize = (0..HEADER.len())
        .map(|column| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([HEADER[column].len()]).max().unwrap_or_default() + GAP
        })
        .sum();
    let width = columns.saturating_sub(used + GAP).max(MIN_WIDTH);
    let axis = format!("0{:>1$}", milliseconds(chart.milliseconds), width - 1);
    let header: Vec<&str> = HEADER.into_iter().chain([axis.as_str()]).collect();
    let lines = chart.rows.iter().zip(rows).map(|(row, facts)| {
        facts.into_iter().chain([bar(row, chart.milliseconds, width)]).collect()
    });
    format!("{}\n{}", table(&header, lines), legend())
}

fn facts(row: &Row) -> [String; 3] {
    [row.rank.to_string(), or_dash(row.exit_code), or_dash(row.node.as_ref())]
}

fn bar(row: &Row, whole: i64, width: usize) -> String {
    let mut line = vec![None; width];
    for segment in &row.segments {
        let (from, length) =
            cells(segment.start_milliseconds, segment.duration_milliseconds, whole, width);
        // A later segment overwrites a cell that it shares with an earlier one.
        line[from..from + length].fill(Some(kind(&segment.name)));
    }
    let mut text = String::new();
    for run in line.chunk_by(|one, next| one == next) {
        match run.first().copied().flatten() {
            None => text.push_str(&" ".repeat(run.len())),
            Some(kind) => text.push_str(&painted(kind, run.len())),
        }
    }
    text.trim_end().to_owned()
}

fn kind(name: &str) -> Kind {
    KINDS.into_iter().find(|(names, ..)| names.contains(&name)).unwrap_or(PREPARE)
}

fn painted((_, colour, cell, _): Kind, length: usize) -> String {
    paint(colour, &cell.repeat(length))
}

fn legend() -> String {
    let mut text = String::new();
    for kind in KINDS {
        let _ = write!(text, "{} {}  ", painted(kind, 1), kind.3);
    }
    format!("{}\n", text.trim_end())
}
