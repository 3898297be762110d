//! `wait`: waits until a MiniCluster is ready or has ended.

use crate::commands::status::summary;
use crate::connection::Connection;
use crate::minicluster::{MiniClusterRef, NameArgument};
use crate::output::print;
use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use flux_api::crd::{MiniCluster, State};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::timeout;

#[derive(Debug, Args)]
#[command(
    after_help = "Ends with 0 when the goal is reached, 1 when it can no longer be reached or the time is over."
)]
pub(crate) struct Wait {
    #[command(flatten)]
    name: NameArgument,
    /// Goal to wait for
    #[arg(long = "for", value_enum, default_value_t = Goal::End, value_name = "WHAT")]
    goal: Goal,
    /// Longest time to wait, in seconds [default: no limit]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Goal {
    /// The required brokers are online.
    Ready,
    /// The run has ended, whether it succeeded or failed.
    End,
    /// The command has ended with exit code 0.
    Complete,
    /// It is suspended and its pods are gone.
    Suspended,
}

impl Goal {
    /// Whether the goal is reached in `state`; `None` while it can still be reached.
    fn is_reached(self, state: State) -> Option<bool> {
        let has_ended = matches!(state, State::Complete | State::Failed | State::Invalid);
        let reached = match self {
            Self::Ready => state == State::Running,
            Self::End => matches!(state, State::Complete | State::Failed),
            Self::Complete => state == State::Complete,
            Self::Suspended => state == State::Suspended,
        };
        if reached { Some(true) } else { has_ended.then_some(false) }
    }
}

impl Wait {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let target = self.name.target(connection);
        target.get().await?;
        let end = until(&target, self.goal);
        let limit = self.timeout.map_or(Duration::MAX, Duration::from_secs);
        let Ok(end) = timeout(limit, end).await else {
            bail!("timed out after {} s: {}", limit.as_secs(), summary(&target.get().await?));
        };
        let (cluster, reached) = end?;
        print(&summary(&cluster));
        Ok(if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Waits until the MiniCluster has reached `goal` (true) or can no longer reach it (false).
pub(crate) async fn until(target: &MiniClusterRef, goal: Goal) -> Result<(MiniCluster, bool)> {
    target
        .until(|cluster| {
            let cluster = cluster.with_context(|| format!("{} was deleted", target.name))?;
            let state = cluster.status.as_ref().filter(|status| {
                // Before that, the state belongs to an older specification.
                status.observed_generation == cluster.metadata.generation
            });
            let reached = state.and_then(|status| goal.is_reached(status.state?));
            Ok(reached.map(|reached| (cluster, reached)))
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_reached_missed_or_open() {
        assert_eq!(Goal::Ready.is_reached(State::Starting), None);
        assert_eq!(Goal::Ready.is_reached(State::Running), Some(true));
        assert_eq!(Goal::Ready.is_reached(State::Complete), Some(false));
        assert_eq!(Goal::End.is_reached(State::Failed), Some(true));
        assert_eq!(Goal::End.is_reached(State::Invalid), Some(false));
        assert_eq!(Goal::Complete.is_reached(State::Failed), Some(false));
        assert_eq!(Goal::Suspended.is_reached(State::Ending), None);
    }
}
