//! `wait`: waits until a MiniCluster is ready or has ended.

use crate::commands::status::summary;
use crate::duration::duration;
use crate::prelude::*;
use crate::progress::Progress;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use flux_api::crd::MiniClusterStatus;
use tokio::time::timeout;

#[derive(Debug, Args)]
#[command(
    after_help = "Ends with 0 when all goals are reached, 1 when one can no longer be reached or the time is over."
)]
pub(crate) struct Wait {
    #[command(flatten)]
    names: NamesArgument,
    /// Goal: ready (the required brokers are online), end (success or failure), complete (exit code 0), suspended (its
    /// pods are gone), delete, or condition=TYPE[=STATUS]
    #[arg(long = "for", value_parser = goal, default_value = "end", value_name = "WHAT")]
    #[arg(add = ArgValueCandidates::new(|| GOALS.map(|(word, _)| CompletionCandidate::new(word)).into()))]
    goal: Goal,
    /// Longest time to wait, as 30s or 1h30m; a number without a unit is in seconds [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Goal {
    Ready,
    End,
    Complete,
    Suspended,
    Delete,
    /// The condition of this type has this status.
    Condition(String, String),
}

const GOALS: [(&str, Goal); 5] = [
    ("ready", Goal::Ready),
    ("end", Goal::End),
    ("complete", Goal::Complete),
    ("suspended", Goal::Suspended),
    ("delete", Goal::Delete),
];

fn goal(text: &str) -> Result<Goal, String> {
    if let Some(condition) = text.strip_prefix("condition=") {
        let (type_, status) = condition.split_once('=').unwrap_or((condition, "True"));
        return Ok(Goal::Condition(type_.to_owned(), status.to_owned()));
    }
    let goal = GOALS.into_iter().find(|(word, _)| *word == text).map(|(_, goal)| goal);
    let words = GOALS.map(|(word, _)| word).join(", ");
    goal.ok_or_else(|| format!("give one of {words}, or condition=TYPE[=STATUS]"))
}

impl Goal {
    fn is_reached(&self, status: &MiniClusterStatus) -> Option<bool> {
        let state = status.state?;
        let has_ended = matches!(state, State::Complete | State::Failed | State::Invalid);
        let reached = match self {
            Self::Ready => state == State::Running,
            Self::End => matches!(state, State::Complete | State::Failed),
            Self::Complete => state == State::Complete,
            Self::Suspended => state == State::Suspended,
            Self::Delete => return None,
            Self::Condition(type_, value) => status.conditions.iter().any(|it| {
                it.type_.eq_ignore_ascii_case(type_) && it.status.eq_ignore_ascii_case(value)
            }),
        };
        if reached { Some(true) } else { has_ended.then_some(false) }
    }
}

impl Wait {
    pub(crate) async fn execute(&self, connection: Connection) -> ExitCode {
        self.names.each(&connection, async |target| self.wait(&target).await).await
    }

    async fn wait(&self, target: &MiniClusterRef) -> Result<()> {
        // Several lines that change would overwrite each other.
        let is_alone = self.names.names.len() == 1;
        let progress = if is_alone { Progress::new } else { Progress::lines };
        let mut progress = progress(&target.name);
        let mut last = "the API server has not answered".to_owned();
        let end = async {
            if self.goal == Goal::Delete {
                target.until_gone(None).await?;
                return Ok((format!("{} deleted", target.full_name()), true));
            }
            let find = |cluster: Option<MiniCluster>| {
                last = cluster.as_ref().map_or(String::new(), summary);
                let seen = cluster.clone();
                let end = end(target, &self.goal, cluster)?;
                if let Some(cluster) = seen.filter(|_| end.is_none()) {
                    progress.print_unprocessed(&cluster);
                    progress.print_state(&cluster);
                }
                Ok(end)
            };
            target.until(find).await.map(|(cluster, reached)| (summary(&cluster), reached))
        };
        let limit = self.timeout.unwrap_or(Duration::MAX);
        let end = timeout(limit, end).await;
        progress.finish();
        let Ok(end) = end else { bail!("timed out after {limit:?}: {last}") };
        let (text, reached) = end?;
        ensure!(reached, "{text}");
        print(&text);
        Ok(())
    }
}

/// The MiniCluster, if the wait for `goal` ends with it, and whether it has reached that.
pub(crate) fn end(
    target: &MiniClusterRef,
    goal: &Goal,
    cluster: Option<MiniCluster>,
) -> Result<Option<(MiniCluster, bool)>> {
    let cluster = cluster.ok_or_else(|| target.absent())?;
    let status = cluster.status.as_ref().filter(|status| is_current(&cluster, status));
    let reached = status.and_then(|status| goal.is_reached(status));
    Ok(reached.map(|reached| (cluster, reached)))
}

/// False while the state belongs to an older specification, or to a run that another one is to follow.
fn is_current(cluster: &MiniCluster, status: &MiniClusterStatus) -> bool {
    let is_of_run = cluster.spec.run_id.is_none() || status.run_id == cluster.spec.run_id;
    let is_invalid = status.state == Some(State::Invalid);
    status.observed_generation == cluster.metadata.generation && (is_of_run || is_invalid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn goals_are_reached_missed_or_open() {
        for (word, state, expected) in [
            ("ready", "Starting", None),
            ("ready", "Running", Some(true)),
            ("ready", "Complete", Some(false)),
            ("end", "Failed", Some(true)),
            ("end", "Invalid", Some(false)),
            ("end", "Hibernating", None),
            ("complete", "Failed", Some(false)),
            ("suspended", "Ending", None),
            ("condition=ready", "Running", Some(true)),
            ("condition=Ready=False", "Running", None),
            ("condition=Ready=False", "Failed", Some(false)),
        ] {
            let condition = json!({
                "type": "Ready", "status": "True", "reason": "", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            let status = json!({ "state": state, "conditions": [condition] });
            let status = serde_json::from_value(status).unwrap();
            assert_eq!(goal(word).unwrap().is_reached(&status), expected, "{word} {state}");
        }
        assert!(goal("condition").is_err());
    }

    #[test]
    fn the_end_of_a_run_is_not_that_of_the_next() {
        for (wanted, of_status, observed, state, expected) in [
            (None, None, 2, "Complete", true),
            (None, Some("a"), 2, "Complete", true),
            (Some("a"), Some("a"), 2, "Complete", true),
            (Some("a"), Some("a"), 1, "Complete", false),
            (Some("b"), Some("a"), 2, "Complete", false),
            (Some("b"), None, 2, "Pending", false),
            (Some("b"), Some("a"), 2, "Invalid", true),
        ] {
            let status =
                json!({ "state": state, "observedGeneration": observed, "runId": of_status });
            let cluster = json!({
                "apiVersion": "flux-framework.org/v1alpha2", "kind": "MiniCluster",
                "metadata": { "name": "hello", "generation": 2 },
                "spec": { "containers": [], "runId": wanted }, "status": status,
            });
            let cluster: MiniCluster = serde_json::from_value(cluster).unwrap();
            let status = cluster.status.as_ref().unwrap();
            assert_eq!(is_current(&cluster, status), expected, "{wanted:?} {of_status:?} {state}");
        }
    }
}
