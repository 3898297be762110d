//! The runs of a MiniCluster that have ended, and the numbers of their jobs.

use crate::output::{age, coloured, or_dash, table};
use flux_api::crd::{JobNumbers, MiniClusterStatus, PastRun};

/// A table of the runs, unless there is only the one that the rest of the page shows.
pub(super) fn history(status: &MiniClusterStatus) -> String {
    let shown = usize::from(status.is_over());
    if status.history.len() <= shown {
        return String::new();
    }
    table(&["RUN", "STATE", "EXIT", "PODS", "TOOK", "JOBS"], status.history.iter().map(row))
}

fn row(run: &PastRun) -> Vec<String> {
    let took = run.start_time.as_ref().zip(run.completion_time.as_ref());
    vec![
        or_dash(run.run_id.as_ref()),
        coloured(run.state),
        or_dash(run.exit_code),
        run.size.to_string(),
        or_dash(took.map(|(start, end)| age(start.0, end.0))),
        or_dash(run.jobs.as_ref().map(numbers)),
    ]
}

pub(super) fn numbers(jobs: &JobNumbers) -> String {
    let named = [
        (jobs.successful, "successful"),
        (jobs.failed, "failed"),
        (jobs.canceled, "canceled"),
        (jobs.timed_out, "timed out"),
        (jobs.unfinished, "unfinished"),
        (jobs.not_run, "not run"),
    ];
    let some = named.into_iter().filter(|(number, _)| *number != 0);
    let some: Vec<_> = some.map(|(number, end)| format!("{number} {end}")).collect();
    if some.is_empty() { "none".to_owned() } else { some.join(", ") }
}
