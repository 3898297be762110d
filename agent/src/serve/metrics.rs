//! The instance for Prometheus, in the text of `OpenMetrics` 1.0.

use crate::serve::instance::{JobCounts, Rank};
use std::fmt::Write as _;

/// What the text is.
pub(super) const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// One family: name, what it is, the label's name, and the values.
type Family<'text> = (&'text str, &'text str, &'text str, Vec<(&'text str, u64)>);

/// How many cores, or GPUs, are in which state.
#[derive(Default)]
struct Uses {
    allocated: u64,
    free: u64,
    drained: u64,
    lost: u64,
}

impl Uses {
    /// Adds those of a rank: all of them, and those that jobs have.
    fn add(&mut self, rank: &Rank, all: usize, allocated: usize) {
        let [all, allocated] = [all, allocated].map(|count| count as u64);
        self.allocated += allocated;
        let rest = all.saturating_sub(allocated);
        if !rank.is_up() {
            self.lost += rest;
        } else if rank.is_drained() {
            self.drained += rest;
        } else {
            self.free += rest;
        }
    }

    fn values(&self) -> Vec<(&'static str, u64)> {
        [
            ("allocated", self.allocated),
            ("free", self.free),
            ("drained", self.drained),
            ("lost", self.lost),
        ]
        .into()
    }
}

/// The whole text.
pub(super) fn text(jobs: &JobCounts, ranks: &[Rank]) -> String {
    let (mut cores, mut gpus) = (Uses::default(), Uses::default());
    for rank in ranks {
        cores.add(rank, rank.of.cores, rank.of.cores_allocated);
        gpus.add(rank, rank.of.gpus, rank.of.gpus_allocated);
    }
    let count = |is: fn(&Rank) -> bool| ranks.iter().filter(|rank| is(rank)).count() as u64;
    let of_ranks = vec![
        ("up", count(|rank| rank.is_up() && !rank.is_drained())),
        ("drained", count(|rank| rank.is_up() && rank.is_drained())),
        ("lost", count(|rank| !rank.is_up())),
    ];
    let families: [Family<'_>; 5] = [
        ("flux_jobs", "Jobs by their state.", "state", jobs.states()),
        ("flux_jobs_ended", "Jobs that have ended, by their result.", "result", jobs.results()),
        ("flux_ranks", "Ranks by their state.", "state", of_ranks),
        ("flux_cores", "Cores that Flux schedules, by their use.", "state", cores.values()),
        ("flux_gpus", "GPUs that Flux schedules, by their use.", "state", gpus.values()),
    ];
    let mut text = String::new();
    for (name, what, label, values) in families {
        let _ = writeln!(text, "# TYPE {name} gauge\n# HELP {name} {what}");
        for (value, number) in values {
            let _ = writeln!(text, "{name}{{{label}=\"{value}\"}} {number}");
        }
    }
    text.push_str("# EOF\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use flux_contract::instance::RankReport;

    #[test]
    fn every_core_is_counted_once() {
        let rank = |up, drained: Option<&str>, cores_allocated| {
            let drained = drained.map(ToOwned::to_owned);
            let of = RankReport {
                up,
                drained,
                cores: 4,
                cores_allocated,
                gpus: 1,
                ..RankReport::default()
            };
            Rank { of, hostname: None, jobs: Vec::new() }
        };
        let ranks = [rank(true, None, 3), rank(true, Some(""), 1), rank(false, None, 0)];
        let jobs = serde_json::from_str(
            r#"{"job_states":{"depend":1,"run":2,"inactive":3,"total":6},"successful":2,"failed":1}"#,
        );
        insta::assert_snapshot!(text(&jobs.unwrap(), &ranks), @r#"
        # TYPE flux_jobs gauge
        # HELP flux_jobs Jobs by their state.
        flux_jobs{state="depend"} 1
        flux_jobs{state="priority"} 0
        flux_jobs{state="sched"} 0
        flux_jobs{state="run"} 2
        flux_jobs{state="cleanup"} 0
        flux_jobs{state="inactive"} 3
        # TYPE flux_jobs_ended gauge
        # HELP flux_jobs_ended Jobs that have ended, by their result.
        flux_jobs_ended{result="completed"} 2
        flux_jobs_ended{result="failed"} 1
        flux_jobs_ended{result="canceled"} 0
        flux_jobs_ended{result="timeout"} 0
        # TYPE flux_ranks gauge
        # HELP flux_ranks Ranks by their state.
        flux_ranks{state="up"} 1
        flux_ranks{state="drained"} 1
        flux_ranks{state="lost"} 1
        # TYPE flux_cores gauge
        # HELP flux_cores Cores that Flux schedules, by their use.
        flux_cores{state="allocated"} 4
        flux_cores{state="free"} 1
        flux_cores{state="drained"} 3
        flux_cores{state="lost"} 4
        # TYPE flux_gpus gauge
        # HELP flux_gpus GPUs that Flux schedules, by their use.
        flux_gpus{state="allocated"} 0
        flux_gpus{state="free"} 1
        flux_gpus{state="drained"} 1
        flux_gpus{state="lost"} 1
        # EOF
        "#);
    }
}
