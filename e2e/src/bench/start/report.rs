//! What all runs together say: tables for people, a document for programs.

use clap::ValueEnum as _;
use serde::Serialize;

use super::{
    contender::{Contender, RATIOS},
    recording::{JOB_COMPLETE, MILESTONES, POD_ENDED, REPORTED},
    run::Run,
};
use crate::bench::table::render;

/// The measurement.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// Which Flux ran.
    pub(super) flux: String,
    /// How the operator was built.
    pub(super) operator: &'static str,
    /// The machine.
    pub(super) cores: usize,
    /// Seconds for which the cluster's DNS answers from its cache.
    pub(super) dns_cache_seconds: u32,
    /// How often each contender ran.
    pub(super) rounds: usize,
    /// Numbers of pods.
    pub(super) sizes: Vec<u32>,
    /// All runs.
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
    /// Of these values; none if there are none.
    fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (least, most, count) = (*sorted.first()?, *sorted.last()?, sorted.len());
        let median = f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]);
        Some(Self { median, least, most })
    }
}

/// A figure of a run.
type Figure = dyn Fn(&Run) -> Option<f64>;

impl Report {
    fn spread(&self, contender: Contender, size: u32, figure: &Figure) -> Option<Spread> {
        let is_one = |run: &&Run| (run.contender, run.size) == (contender, size);
        Spread::of(self.runs.iter().filter(is_one).filter_map(figure))
    }

    fn median(&self, contender: Contender, size: u32, milestone: &'static str) -> Option<f64> {
        let figure = move |run: &Run| run.milestones.get(milestone).copied();
        self.spread(contender, size, &figure).map(|spread| spread.median)
    }

    /// Those that ran, in their order.
    fn contenders(&self) -> Vec<Contender> {
        let ran = |it: &Contender| self.runs.iter().any(|run| run.contender == *it);
        Contender::value_variants().iter().copied().filter(ran).collect()
    }

    /// Everything, as Markdown.
    pub(super) fn text(&self) -> String {
        let dns = match self.dns_cache_seconds {
            0 => "DNS without a cache".to_owned(),
            seconds => format!("DNS with a cache of {seconds} s"),
        };
        let (flux, operator, rounds, cores) = (&self.flux, self.operator, self.rounds, self.cores);
        let mut text = format!(
            "{flux}. The operator {operator}, {rounds} rounds, {cores} cores, {dns}. Seconds from the first object's \
             creation: median (least - most).\n"
        );
        let to = |milestone: &'static str| move |run: &Run| run.milestones.get(milestone).copied();
        let figures: [(&str, &Figure); 4] = [
            ("To the lead's end", &to(POD_ENDED)),
            ("To the Job's Complete", &to(JOB_COMPLETE)),
            ("To the MiniCluster's Complete", &to(REPORTED)),
            ("Work of all processors for a run, whoever did it", &|run| {
                Some(run.processor_seconds)
            }),
        ];
        let tables = figures.map(|(title, figure)| (title.to_owned(), self.spreads(figure)));
        let ratios = ("Ratios of the medians to the lead's end".to_owned(), self.ratios());
        let milestones = self.sizes.iter().map(|size| {
            (format!("Medians of the milestones, {size} pods"), self.milestones(*size))
        });
        let tables = tables.into_iter().chain([ratios]).chain(milestones);
        let tables = tables.map(|(title, table)| format!("\n{title}:\n\n{table}"));
        text.extend(tables);
        text
    }

    /// A table with a column for each size.
    fn by_size(&self, rows: &[(String, Vec<String>)]) -> String {
        let heads: Vec<String> = self.sizes.iter().map(|size| format!("{size} pods")).collect();
        render(&heads.iter().map(String::as_str).collect::<Vec<_>>(), rows)
    }

    fn spreads(&self, figure: &Figure) -> String {
        let rows = self.contenders().into_iter().map(|contender| {
            let spreads = self.sizes.iter().map(|size| self.spread(contender, *size, figure));
            let cell = |it: Spread| format!("{:.2} ({:.2} - {:.2})", it.median, it.least, it.most);
            (contender.name().to_owned(), cells(spreads, cell))
        });
        self.by_size(&rows.collect::<Vec<_>>())
    }

    fn ratios(&self) -> String {
        let ran = self.contenders();
        let pairs = RATIOS.into_iter().filter(|(of, to)| ran.contains(of) && ran.contains(to));
        let rows = pairs.map(|(of, to)| {
            let ratio = |size: &u32| {
                let median = |it| self.median(it, *size, POD_ENDED);
                Some(median(of)? / median(to)?)
            };
            let cells = cells(self.sizes.iter().map(ratio), |it| format!("{it:.2}"));
            (format!("{} / {}", of.name(), to.name()), cells)
        });
        self.by_size(&rows.collect::<Vec<_>>())
    }

    fn milestones(&self, size: u32) -> String {
        let contenders = self.contenders();
        let heads: Vec<&str> = contenders.iter().map(|it| it.name()).collect();
        let rows = MILESTONES.map(|(name, _)| {
            let medians = contenders.iter().map(|it| self.median(*it, size, name));
            (name.to_owned(), cells(medians, |it| format!("{it:.3}")))
        });
        render(&heads, &rows)
    }
}

/// What is not there is empty.
fn cells<T>(values: impl Iterator<Item = Option<T>>, cell: impl Fn(T) -> String) -> Vec<String> {
    values.map(|value| value.map(&cell).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_hold_medians_spreads_ratios_and_milestones() {
        let run = |contender, round, seconds: f64| Run {
            contender,
            size: 4,
            round,
            milestones: [(POD_ENDED, seconds), (JOB_COMPLETE, seconds + 2.0)].into(),
            processor_seconds: seconds * 1.5,
        };
        let report = Report {
            flux: "Flux: a sample".to_owned(),
            operator: "as it is released",
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
    }

    #[test]
    fn of_nothing_there_is_no_spread() {
        assert_eq!(Spread::of([]), None);
    }
}
