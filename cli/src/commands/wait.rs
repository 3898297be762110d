//! `wait`: until a MiniCluster is ready, or has ended.

use crate::commands::status::summary;
use crate::connection::Connection;
use crate::output::print;
use crate::target::{NameArgument, Target};
use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use flux_api::crd::{MiniCluster, State};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::timeout;

/// `wait`.
#[derive(Debug, Args)]
#[command(
    after_help = "Ends with 0 when it has come to that, with 1 when it cannot any more or the time is over."
)]
pub(crate) struct Wait {
    #[command(flatten)]
    name: NameArgument,
    /// What to wait for
    #[arg(long = "for", value_enum, default_value_t = Goal::End, value_name = "WHAT")]
    goal: Goal,
    /// How long, in seconds; without end unless given
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Goal {
    /// The brokers that are needed are online.
    Ready,
    /// The run has ended, well or not.
    End,
    /// The command has ended with 0.
    Complete,
    /// It is suspended, and its pods have gone.
    Suspended,
}

impl Goal {
    /// Whether it has come to that; `None` while it still can.
    fn is_reached(self, state: State) -> Option<bool> {
        let over = matches!(state, State::Complete | State::Failed | State::Invalid);
        let reached = match self {
            Self::Ready => state == State::Running,
            Self::End => matches!(state, State::Complete | State::Failed),
            Self::Complete => state == State::Complete,
            Self::Suspended => state == State::Suspended,
        };
        if reached { Some(true) } else { over.then_some(false) }
    }
}

impl Wait {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let target = Target::new(connection, &self.name.name);
        target.get().await?;
        let end = until(&target, self.goal);
        let (cluster, reached) = match self.timeout {
            None => end.await?,
            Some(seconds) => match timeout(Duration::from_secs(seconds), end).await {
                Ok(end) => end?,
                Err(_) => bail!("after {seconds} s: {}", summary(&target.get().await?)),
            },
        };
        print(&summary(&cluster));
        Ok(if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The MiniCluster when it has come to `goal`, or cannot any more: whether it has.
pub(crate) async fn until(target: &Target, goal: Goal) -> Result<(MiniCluster, bool)> {
    target
        .until(|seen| {
            let cluster = seen.with_context(|| format!("{} was deleted", target.name))?;
            let state = cluster.status.as_ref().filter(|status| {
                // Until then the state is that of an older specification.
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
    fn a_goal_is_reached_missed_or_still_ahead() {
        assert_eq!(Goal::Ready.is_reached(State::Starting), None);
        assert_eq!(Goal::Ready.is_reached(State::Running), Some(true));
        assert_eq!(Goal::Ready.is_reached(State::Complete), Some(false));
        assert_eq!(Goal::End.is_reached(State::Failed), Some(true));
        assert_eq!(Goal::End.is_reached(State::Invalid), Some(false));
        assert_eq!(Goal::Complete.is_reached(State::Failed), Some(false));
        assert_eq!(Goal::Suspended.is_reached(State::Ending), None);
    }
}
