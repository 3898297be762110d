//! `resources`: lists the cores and GPUs of each rank, and how many are allocated to jobs.

use crate::connection::Connection;
use crate::minicluster::NameArgument;
use crate::output::{FormatArgument, paint, print, table};
use crate::rank_pod::RankPod;
use anstyle::AnsiColor;
use anyhow::Result;
use clap::Args;
use flux_protocol::RankStatus;

#[derive(Debug, Args)]
pub(crate) struct Resources {
    #[command(flatten)]
    name: NameArgument,
    #[command(flatten)]
    format: FormatArgument,
}

impl Resources {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<()> {
        let lead = RankPod::lead(self.name.target(connection)).await?;
        let ranks = lead.report(false, None).await?.ranks;
        if !self.format.print(&ranks, ranks.iter().map(|rank| rank.rank.to_string()))? {
            print(&text(&ranks));
        }
        Ok(())
    }
}

/// The state of a rank and its colour.
const fn state(rank: &RankStatus) -> (&'static str, AnsiColor) {
    match (rank.up, rank.drained.is_some()) {
        (false, _) => ("offline", AnsiColor::Red),
        (true, true) => ("drained", AnsiColor::Yellow),
        (true, false) => ("online", AnsiColor::Green),
    }
}

/// The table, with columns for GPUs if any rank has one.
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
    fn drained_and_offline_ranks_have_nothing_free() {
        let plain = |ranks: &[RankStatus]| anstream::adapter::strip_str(&text(ranks)).to_string();
        insta::assert_snapshot!(plain(&crate::fixtures::report().ranks), @r"
        RANK  STATE    CORES  FREE  ALLOCATED  REASON
        0     online   4      0     4
        1     online   4      2     2
        2     drained  4      0     0          bad fan
        3     offline  4      0     0
        all            16     2     6
        ");
        let with_gpus =
            RankStatus { up: true, cores: 4, cores_allocated: 1, gpus: 2, ..RankStatus::default() };
        insta::assert_snapshot!(plain(&[with_gpus]), @r"
        RANK  STATE   CORES  FREE  ALLOCATED  GPUS  FREE  ALLOCATED  REASON
        0     online  4      3     1          2     2     0
        ");
    }
}
