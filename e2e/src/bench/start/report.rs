//! What all runs together say: tables for people, a document for programs.

use std::fmt::Write as _;

use serde::Serialize;

use super::{
    contender::{Contender, Start},
    recording::Milestone,
    run::{Measured, Run},
    statistics::Spread,
};

/// Who is divided by whom.
const RATIOS: [(Contender, Contender); 7] = [
    (Contender::Mounted, Contender::Bare),
    (Contender::Mounted, Contender::MountedByHand),
    (Contender::Copied, Contender::CopiedByHand),
    (Contender::CopiedFromOne, Contender::CopiedByHand),
    (Contender::Mounted, Contender::Peer),
    (Contender::Copied, Contender::Peer),
    (Contender::CopiedFromOne, Contender::Peer),
];

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

impl Report {
    /// How long it took all runs of a kind to reach a milestone.
    fn spread(
        &self,
        contender: Contender,
        size: u32,
        start: Start,
        milestone: Milestone,
    ) -> Option<Spread> {
        self.spread_of(contender, size, start, |it| it.milestones.get(&milestone).copied())
    }

    fn spread_of(
        &self,
        contender: Contender,
        size: u32,
        start: Start,
        what: impl Fn(&Measured) -> Option<f64>,
    ) -> Option<Spread> {
        let is_one = |run: &&Run| (run.contender, run.size, run.start) == (contender, size, start);
        let runs = self.runs.iter().filter(is_one);
        Spread::of(runs.filter_map(|run| what(&run.measured)))
    }

    /// Those that ran, in their order.
    fn contenders(&self) -> Vec<Contender> {
        let mut all = Contender::all(true);
        all.retain(|it| self.runs.iter().any(|run| run.contender == *it));
        all
    }

    /// Everything, as Markdown.
    pub(super) fn text(&self) -> String {
        let dns = match self.dns_cache_seconds {
            0 => "DNS without a cache".to_owned(),
            seconds => format!("DNS with a cache of {seconds} s"),
        };
        let mut text = format!(
            "{}. The operator {}, {} rounds, {} cores, {dns}. Seconds from the first object's creation: median \
             (least - most).\n",
            self.flux, self.operator, self.rounds, self.cores
        );
        for milestone in [Milestone::PodEnded, Milestone::Complete] {
            // Writing to a String cannot fail.
            let times = self.spreads(|it| it.milestones.get(&milestone).copied());
            let _ = writeln!(text, "\nTo {}:\n\n{times}", what(milestone));
        }
        let work = self.spreads(|it| Some(it.processor_seconds));
        let _ = writeln!(text, "Work of all processors for a run, whoever did it:\n\n{work}");
        let _ = writeln!(text, "Ratios of the medians to the lead's end:\n\n{}", self.ratios());
        for size in &self.sizes {
            let _ = writeln!(
                text,
                "Medians of the milestones, {size} pods, first start:\n\n{}",
                self.milestones(*size)
            );
        }
        text
    }

    /// A column for each kind of run.
    fn columns(&self) -> Vec<(u32, Start)> {
        self.sizes.iter().flat_map(|size| Start::BOTH.map(|start| (*size, start))).collect()
    }

    fn heads(&self) -> Vec<String> {
        let columns = self.columns().into_iter();
        columns.map(|(size, start)| format!("{size} pods, {}", start.name())).collect()
    }

    fn spreads(&self, what: impl Fn(&Measured) -> Option<f64>) -> String {
        let rows = self.contenders().into_iter().map(|contender| {
            let spreads = self
                .columns()
                .into_iter()
                .map(|(size, start)| self.spread_of(contender, size, start, &what));
            let cells = spreads.map(|spread| {
                spread.map_or_else(String::new, |it| {
                    format!("{:.2} ({:.2} - {:.2})", it.median, it.least, it.most)
                })
            });
            (contender.name().to_owned(), cells.collect())
        });
        table(&self.heads(), rows)
    }

    fn ratio(&self, (of, to): (Contender, Contender), size: u32, start: Start) -> Option<f64> {
        let median = |contender| {
            self.spread(contender, size, start, Milestone::PodEnded).map(|it| it.median)
        };
        Some(median(of)? / median(to)?)
    }

    fn ratios(&self) -> String {
        let ran = self.contenders();
        let pairs = RATIOS.into_iter().filter(|(of, to)| ran.contains(of) && ran.contains(to));
        let rows = pairs.map(|pair| {
            let columns = self.columns().into_iter();
            let ratios = columns.map(|(size, start)| self.ratio(pair, size, start));
            let cells = ratios.map(|it| it.map_or_else(String::new, |it| format!("{it:.2}")));
            (format!("{} / {}", pair.0.name(), pair.1.name()), cells.collect())
        });
        table(&self.heads(), rows)
    }

    fn milestones(&self, size: u32) -> String {
        let contenders = self.contenders();
        let heads: Vec<String> = contenders.iter().map(|it| it.name().to_owned()).collect();
        let rows = Milestone::ALL.into_iter().map(|milestone| {
            let cells = contenders.iter().map(|contender| {
                let spread = self.spread(*contender, size, Start::First, milestone);
                spread.map_or_else(String::new, |it| format!("{:.3}", it.median))
            });
            (milestone.name().to_owned(), cells.collect())
        });
        table(&heads, rows)
    }
}

fn what(milestone: Milestone) -> &'static str {
    if milestone == Milestone::Complete { "the Job's Complete" } else { "the lead's end" }
}

fn table(heads: &[String], rows: impl IntoIterator<Item = (String, Vec<String>)>) -> String {
    let mut text = format!("| | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    for (name, cells) in rows {
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Report {
        let run = |contender, round, start, seconds: f64| Run {
            contender,
            size: 4,
            round,
            start,
            measured: Measured {
                milestones: [(Milestone::PodEnded, seconds), (Milestone::Complete, seconds + 2.0)]
                    .into(),
                processor_seconds: seconds * 1.5,
            },
        };
        Report {
            flux: "Flux: a sample".to_owned(),
            operator: "as it is released",
            cores: 2,
            dns_cache_seconds: 30,
            rounds: 3,
            sizes: vec![4],
            runs: vec![
                run(Contender::Mounted, 0, Start::First, 3.0),
                run(Contender::Mounted, 1, Start::First, 9.0),
                run(Contender::Mounted, 2, Start::First, 4.0),
                run(Contender::Mounted, 0, Start::Again, 5.0),
                run(Contender::MountedByHand, 0, Start::First, 2.0),
            ],
        }
    }

    #[test]
    fn tables_hold_medians_spreads_ratios_and_milestones() {
        let text = sample().text();
        for line in [
            "| | 4 pods, first | 4 pods, again |",
            "| this operator, mounted | 4.00 (3.00 - 9.00) | 5.00 (5.00 - 5.00) |",
            "| by hand, mounted | 4.00 (4.00 - 4.00) |  |",
            "| this operator, mounted / by hand, mounted | 2.00 |  |",
            "| this operator, mounted | 6.00 (4.50 - 13.50) | 7.50 (7.50 - 7.50) |",
            "| pod ended | 2.000 | 4.000 |",
            "| accepted |  |  |",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
    }
}
