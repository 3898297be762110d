//! `resources`: what each rank has, and what jobs have of it.

use crate::connection::Connection;
use crate::instance::Place;
use crate::output::{FormatArgument, paint, print, table};
use crate::target::{NameArgument, Target};
use anstyle::AnsiColor;
use anyhow::Result;
use clap::Args;
use flux_protocol::RankStatus;
use std::process::ExitCode;

/// `resources`.
#[derive(Debug, Args)]
pub(crate) struct Resources {
    #[command(flatten)]
    name: NameArgument,
    #[command(flatten)]
    format: FormatArgument,
}

impl Resources {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let place = Place::lead(Target::new(connection, &self.name.name)).await?;
        let ranks = place.report(false, None).await?.ranks;
        let names: Vec<String> = ranks.iter().map(|rank| rank.rank.to_string()).collect();
        if !self.format.print(&ranks, &names)? {
            print(&text(&ranks));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What a rank does, in a word.
pub(crate) const fn state(rank: &RankStatus) -> (&'static str, AnsiColor) {
    match (rank.up, rank.drained.is_some()) {
        (false, _) => ("offline", AnsiColor::Red),
        (true, true) => ("drained", AnsiColor::Yellow),
        (true, false) => ("online", AnsiColor::Green),
    }
}

/// GPUs have columns where there are any.
fn text(ranks: &[RankStatus]) -> String {
    let gpus = ranks.iter().any(|rank| rank.gpus > 0);
    let mut header = vec!["RANK", "STATE", "CORES", "FREE", "ALLOCATED"];
    header.extend(gpus.then_some(["GPUS", "FREE", "ALLOCATED"]).into_iter().flatten());
    header.push("REASON");
    let sum = |of: fn(&RankStatus) -> usize| ranks.iter().map(of).sum::<usize>();
    let counts = |of: &dyn Fn(fn(&RankStatus) -> usize) -> usize| {
        let mut row = vec![
            of(|rank| rank.cores),
            of(RankStatus::cores_free),
            of(|rank| rank.cores_allocated),
        ];
        if gpus {
            row.extend([
                of(|rank| rank.gpus),
                of(RankStatus::gpus_free),
                of(|rank| rank.gpus_allocated),
            ]);
        }
        row.into_iter().map(|count| count.to_string()).collect::<Vec<_>>()
    };
    let mut rows: Vec<Vec<String>> = ranks
        .iter()
        .map(|rank| {
            let (word, colour) = state(rank);
            let mut row = vec![rank.rank.to_string(), paint(colour, word)];
            row.extend(counts(&|of| of(rank)));
            row.push(rank.drained.clone().unwrap_or_default());
            row
        })
        .collect();
    if ranks.len() > 1 {
        let mut row = vec!["all".to_owned(), String::new()];
        row.extend(counts(&sum));
        rows.push(row);
    }
    table(&header, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drained_or_offline_has_nothing_free() {
        let rank = |rank, up, drained: Option<&str>, gpus| RankStatus {
            rank,
            up,
            cores: 4,
            cores_allocated: 1,
            gpus,
            gpus_allocated: 0,
            drained: drained.map(str::to_owned),
        };
        let ranks =
            [rank(0, true, None, 0), rank(1, true, Some("bad fan"), 0), rank(2, false, None, 0)];
        let plain = |ranks: &[RankStatus]| anstream::adapter::strip_str(&text(ranks)).to_string();
        insta::assert_snapshot!(plain(&ranks), @r"
        RANK  STATE    CORES  FREE  ALLOCATED  REASON
        0     online   4      3     1
        1     drained  4      0     1          bad fan
        2     offline  4      0     1
        all            12     3     3
        ");
        insta::assert_snapshot!(plain(&[rank(0, true, None, 2)]), @r"
        RANK  STATE   CORES  FREE  ALLOCATED  GPUS  FREE  ALLOCATED  REASON
        0     online  4      3     1          2     2     0
        ");
    }
}
