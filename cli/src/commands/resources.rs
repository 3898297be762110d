//! `resources`: lists the cores and GPUs of each rank, and how many are allocated to jobs.

use crate::output::{paint, table};
use crate::prelude::*;
use anstyle::AnsiColor;
use flux_protocol::RankStatus;
use std::slice;

#[derive(Debug, Args)]
pub(crate) struct Resources {
    #[command(flatten)]
    name: NameArgument,
    #[command(flatten)]
    format: FormatArgument,
}

impl Resources {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<()> {
        let lead = self.name.lead(connection).await?;
        let ranks = lead.report(false, None).await?.ranks;
        if !self.format.print(&ranks, ranks.iter().map(|rank| rank.rank.to_string()))? {
            print(&text(&ranks));
        }
        Ok(())
    }
}

const fn state(rank: &RankStatus) -> (&'static str, AnsiColor) {
    match (rank.up, rank.drained.is_some()) {
        (false, _) => ("offline", AnsiColor::Red),
        (true, true) => ("drained", AnsiColor::Yellow),
        (true, false) => ("online", AnsiColor::Green),
    }
}

type Count = fn(&RankStatus) -> usize;

const CORES: [(&str, Count); 3] = [
    ("CORES", |rank| rank.cores),
    ("FREE", RankStatus::cores_free),
    ("ALLOCATED", |rank| rank.cores_allocated),
];
const GPUS: [(&str, Count); 3] = [
    ("GPUS", |rank| rank.gpus),
    ("FREE", RankStatus::gpus_free),
    ("ALLOCATED", |rank| rank.gpus_allocated),
];

fn text(ranks: &[RankStatus]) -> String {
    let has_gpus = ranks.iter().any(|rank| rank.gpus > 0);
    let counts = || CORES.iter().chain(GPUS.iter().filter(|_| has_gpus));
    let names = counts().map(|(name, _)| *name);
    let header: Vec<_> = ["RANK", "STATE"].into_iter().chain(names).chain(["REASON"]).collect();
    let row = |name: String, state: String, ranks: &[RankStatus], reason: String| {
        let sums = counts().map(|(_, count)| ranks.iter().map(count).sum::<usize>().to_string());
        [name, state].into_iter().chain(sums).chain([reason]).collect()
    };
    let rows = ranks.iter().map(|rank| {
        let (word, colour) = state(rank);
        let reason = rank.drained.clone().unwrap_or_default();
        row(rank.rank.to_string(), paint(colour, word), slice::from_ref(rank), reason)
    });
    let all = (ranks.len() > 1).then(|| row("all".into(), String::new(), ranks, String::new()));
    table(&header, rows.chain(all))
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
