//! The results of all runs: tables for people, a document for programs.

use super::contender::Contender;
use super::recording::{MILESTONES, Milestone};
use super::run::Run;
use crate::results::{Spread, table};
use clap::ValueEnum as _;
use serde::Serialize;

/// Where and how often runs were made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Setting {
    pub(super) flux: String,
    pub(super) cores: usize,
    pub(super) rounds: usize,
    pub(super) sizes: Vec<u32>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    #[serde(flatten)]
    setting: Setting,
    summaries: Vec<Summary>,
    /// Those before the first round, each contender's first on the node.
    first_runs: Vec<Run>,
    runs: Vec<Run>,
}

/// What the runs of a contender with one size have in common; seconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    contender: Contender,
    size: u32,
    end: Option<Spread>,
    reported: Option<Spread>,
    processor_seconds: Option<Spread>,
    reported_after_status: Option<Spread>,
    end_of_first_run: Option<f64>,
}

impl Summary {
    const HEAD: [&str; 6] = [
        "",
        "end",
        "reported",
        "work of the processors",
        "reported after the pod's status",
        "end of the first run",
    ];

    fn row(&self) -> Vec<String> {
        let spreads = [self.end, self.reported, self.processor_seconds, self.reported_after_status];
        let mut row = vec![self.contender.name()];
        row.extend(spreads.map(|it| it.map(|it| it.to_string()).unwrap_or_default()));
        row.push(self.end_of_first_run.map(|it| format!("{it:.3}")).unwrap_or_default());
        row
    }
}

impl Report {
    pub(super) fn new(setting: Setting, first_runs: Vec<Run>, runs: Vec<Run>) -> Self {
        let mut report = Self { setting, summaries: Vec::new(), first_runs, runs };
        let sizes = report.setting.sizes.iter();
        let summaries = sizes.flat_map(|size| {
            Contender::value_variants().iter().filter_map(|it| report.summary(*it, *size))
        });
        report.summaries = summaries.collect();
        report
    }

    pub(super) fn text(&self) -> String {
        let Setting { flux, rounds, cores, sizes, .. } = &self.setting;
        let head = format!(
            "{flux}. {rounds} rounds, {cores} cores. Seconds from the first object's creation, and of the \
             processors: median (least - most).\n"
        );
        let of_size = |size: &u32| {
            format!("\n{size} pods:\n\n{}\n{}", self.summaries(*size), self.milestones(*size))
        };
        [head].into_iter().chain(sizes.iter().map(of_size)).collect()
    }

    /// A row for each contender that ran.
    fn summaries(&self, size: u32) -> String {
        let head = Summary::HEAD.map(str::to_owned).to_vec();
        let rows = self.summaries.iter().filter(|it| it.size == size).map(Summary::row);
        table(&[head].into_iter().chain(rows).collect::<Vec<_>>())
    }

    /// A row for each milestone, with a column for each contender that ran.
    fn milestones(&self, size: u32) -> String {
        let ran = self.summaries.iter().filter(|it| it.size == size).map(|it| it.contender);
        let contenders: Vec<_> = ran.collect();
        let mut head = vec![String::new()];
        head.extend(contenders.iter().map(|it| it.name()));
        let row = |(name, _): &Milestone| {
            let reached = |run: &Run| run.milestones.get(name).copied();
            let spreads = contenders.iter().map(|it| self.spread(*it, size, reached));
            let cells = spreads.map(|it| it.map(|it| it.to_string()).unwrap_or_default());
            [(*name).to_owned()].into_iter().chain(cells).collect()
        };
        table(&[head].into_iter().chain(MILESTONES.iter().map(row)).collect::<Vec<_>>())
    }

    /// The summary of a contender; `None` if it did not run.
    fn summary(&self, contender: Contender, size: u32) -> Option<Summary> {
        let spread = |of: fn(&Run) -> Option<f64>| self.spread(contender, size, of);
        let first = self.first_runs.iter().find(|it| it.contender == contender && it.size == size);
        Some(Summary {
            contender,
            size,
            processor_seconds: Some(spread(|run| Some(run.processor_seconds))?),
            end: spread(Run::end),
            reported: spread(Run::reported),
            reported_after_status: spread(Run::reported_after_status),
            end_of_first_run: first.and_then(Run::end),
        })
    }

    fn spread(
        &self,
        contender: Contender,
        size: u32,
        of: impl Fn(&Run) -> Option<f64>,
    ) -> Option<Spread> {
        let runs = self.runs.iter().filter(|it| it.contender == contender && it.size == size);
        Spread::of(runs.filter_map(of))
    }
}
