//! The last runs of a MiniCluster: what is known of them when their pods are gone.

use flux_api::crd::{MiniClusterStatus, PastRun};

const LIMIT: usize = 5;

/// The history with the end in `new`, which follows `old`. A status of an older release may lack the run that it reports.
pub(super) fn history(old: Option<&MiniClusterStatus>, new: &MiniClusterStatus) -> Vec<PastRun> {
    let mut history = old.map(|old| old.history.clone()).unwrap_or_default();
    let (before, now) = (old.and_then(ended_run), ended_run(new));
    // A finished MiniCluster is not written anew for a change in its entry.
    if before.as_ref().zip(now.as_ref()).is_some_and(|(before, now)| is_same(before, now)) {
        return history;
    }
    for run in before.into_iter().chain(now) {
        if !history.first().is_some_and(|first| is_same(first, &run)) {
            history.insert(0, run);
        }
    }
    history.truncate(LIMIT);
    history
}

fn is_same(one: &PastRun, other: &PastRun) -> bool {
    one.start_time == other.start_time
        && (one.start_time.is_some() || one.completion_time == other.completion_time)
}

/// The run of `status`, if it has ended.
fn ended_run(status: &MiniClusterStatus) -> Option<PastRun> {
    status.is_over().then(|| PastRun {
        run_id: status.run_id.clone(),
        start_time: status.start_time.clone(),
        completion_time: status.completion_time.clone(),
        state: status.state,
        reason: status.reason.clone(),
        exit_code: status.exit_code,
        size: status.size,
        jobs: status.result.as_ref().and_then(|result| result.jobs),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::at;
    use flux_api::crd::State;

    fn status(start: i64, state: State, history: Vec<PastRun>) -> MiniClusterStatus {
        let (state, start_time) = (Some(state), Some(at(start)));
        MiniClusterStatus { state, start_time, history, ..MiniClusterStatus::default() }
    }

    #[test]
    fn each_end_is_added_once_and_the_oldest_are_dropped() {
        let mut old = status(0, State::Running, Vec::new());
        for start in 1..=7 {
            for state in [State::Pending, State::Running, State::Failed, State::Failed] {
                let new = status(start, state, Vec::new());
                old = MiniClusterStatus { history: history(Some(&old), &new), ..new };
            }
        }
        let starts: Vec<_> = old.history.iter().map(|run| run.start_time.clone()).collect();
        assert_eq!(starts, [7, 6, 5, 4, 3].map(|start| Some(at(start))));
    }

    #[test]
    fn an_end_that_an_older_release_has_reported_is_added_with_the_next_run() {
        let older = status(1, State::Complete, Vec::new());
        assert_eq!(history(Some(&older), &older), [], "nothing is written after an upgrade");
        let next =
            MiniClusterStatus { state: Some(State::Pending), ..MiniClusterStatus::default() };
        let found = history(Some(&older), &next);
        assert_eq!((found.len(), found[0].state), (1, Some(State::Complete)));
    }
}
