//! What all runs together say: tables for people, a document for programs.

use super::contender::Contender;
use super::recording::{MILESTONES, Milestone};
use super::run::Run;
use crate::bench::table::render;
use clap::ValueEnum as _;
use serde::Serialize;
use std::fmt;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) flux: String,
    pub(super) cores: usize,
    /// For how long the cluster's DNS answers from its cache.
    pub(super) dns_cache_seconds: u32,
    pub(super) rounds: usize,
    pub(super) sizes: Vec<u32>,
    pub(super) runs: Vec<Run>,
}

/// Several measurements of the same.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
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

impl Report {
    pub(super) fn text(&self) -> String {
        let dns = match self.dns_cache_seconds {
            0 => "DNS without a cache".to_owned(),
            seconds => format!("DNS with a cache of {seconds} s"),
        };
        let Self { flux, rounds, cores, .. } = self;
        let head = format!(
            "{flux}. {rounds} rounds, {cores} cores, {dns}. Seconds from the first object's creation: median (least - \
             most).\n"
        );
        let of_size = |size: &u32| format!("\n{size} pods:\n\n{}", self.table(*size));
        [head].into_iter().chain(self.sizes.iter().map(of_size)).collect()
    }

    /// A row for each milestone, with a column for each contender that ran.
    fn table(&self, size: u32) -> String {
        let ran = |it: &&Contender| self.runs.iter().any(|run| run.contender == **it);
        let contenders: Vec<_> = Contender::value_variants().iter().filter(ran).collect();
        let mut head = vec![String::new()];
        head.extend(contenders.iter().map(|it| it.name()));
        let row = |(name, _): &Milestone| {
            let spreads = contenders.iter().map(|it| self.spread(**it, size, name));
            let cells = spreads.map(|it| it.map(|it| it.to_string()).unwrap_or_default());
            [(*name).to_owned()].into_iter().chain(cells).collect()
        };
        render(&[head].into_iter().chain(MILESTONES.iter().map(row)).collect::<Vec<_>>())
    }

    fn spread(&self, contender: Contender, size: u32, milestone: &str) -> Option<Spread> {
        let runs = self.runs.iter().filter(|it| it.contender == contender && it.size == size);
        Spread::of(runs.filter_map(|run| run.milestones.get(milestone).copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::recording::{JOB_COMPLETE, POD_ENDED};
    use super::*;

    #[test]
    fn tables_hold_medians_spreads_and_milestones() {
        let run = |contender, round, seconds: f64| Run {
            contender,
            size: 4,
            round,
            milestones: [(POD_ENDED, seconds), (JOB_COMPLETE, seconds + 2.0)].into(),
        };
        let report = Report {
            flux: "Flux: a sample".to_owned(),
            cores: 2,
            dns_cache_seconds: 30,
            rounds: 3,
            sizes: vec![4],
            runs: vec![
                run(Contender::Mounted, 0, 3.0),
                run(Contender::Mounted, 1, 9.0),
                run(Contender::Mounted, 2, 4.0),
                run(Contender::MountedByHand, 0, 2.0),
                run(Contender::MountedByHand, 1, 3.0),
            ],
        };
        insta::assert_snapshot!(report.text());
        assert_eq!(Spread::of([]), None);
    }
}
