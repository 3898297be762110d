//! The instance for Prometheus, in the text of `OpenMetrics` 1.0.

use crate::instance::Rank;
use flux_protocol::RankStatus;
use flux_protocol::client::job_list::JobCounts;
use flux_protocol::job::JobState;
use std::fmt::Write as _;

/// What the text is.
pub(crate) const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// One family: name, what it is, the label's name, and the values.
type Family<'text> = (&'text str, &'text str, &'text str, Vec<(&'text str, u64)>);

/// The index of a rank's state among `up`, `drained` and `lost`.
fn state(rank: &Rank) -> usize {
    if rank.of.up { usize::from(rank.of.drained.is_some()) } else { 2 }
}

/// How many cores, or GPUs, are in which use; `of` a rank there are all, and those that jobs have.
fn uses(ranks: &[Rank], of: fn(&RankStatus) -> [usize; 2]) -> Vec<(&'static str, u64)> {
    let mut uses = [("allocated", 0), ("free", 0), ("drained", 0), ("lost", 0)];
    for rank in ranks {
        let [all, allocated] = of(&rank.of).map(|count| count as u64);
        uses[0].1 += allocated;
        uses[1 + state(rank)].1 += all.saturating_sub(allocated);
    }
    uses.into()
}

pub(crate) fn text(jobs: &JobCounts, ranks: &[Rank]) -> String {
    let cores = uses(ranks, |rank| [rank.cores, rank.cores_allocated]);
    let gpus = uses(ranks, |rank| [rank.gpus, rank.gpus_allocated]);
    let count = |of| ranks.iter().filter(|rank| state(rank) == of).count() as u64;
    let states = JobState::ALL.map(|state| (state.name(), jobs.in_states(state.number())));
    let results = vec![
        ("completed", jobs.successful),
        ("failed", jobs.failed),
        ("canceled", jobs.canceled),
        ("timeout", jobs.timeout),
    ];
    let of_ranks = vec![("up", count(0)), ("drained", count(1)), ("lost", count(2))];
    let families: [Family<'_>; 5] = [
        ("flux_jobs", "Jobs by their state.", "state", states.into()),
        ("flux_jobs_ended", "Jobs that have ended, by their result.", "result", results),
        ("flux_ranks", "Ranks by their state.", "state", of_ranks),
        ("flux_cores", "Cores that Flux schedules, by their use.", "state", cores),
        ("flux_gpus", "GPUs that Flux schedules, by their use.", "state", gpus),
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

    #[test]
    fn every_core_is_counted_once() {
        let all = RankStatus { cores: 4, gpus: 1, ..RankStatus::default() };
        let ranks = [(true, None, 3), (true, Some(String::new()), 1), (false, None, 0)].map(
            |(up, drained, cores_allocated)| Rank {
                of: RankStatus { up, drained, cores_allocated, ..all.clone() },
                hostname: None,
                jobs: Vec::new(),
            },
        );
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
