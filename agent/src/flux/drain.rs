//! How a worker leaves an instance that goes on, and how the next pod of its rank takes its place: a drained rank gets
//! no new job, and those that run there may end (flux-resource(1)).

use flux_protocol::client::{BrokerAddress, SocketError, job_list, resource};
use flux_protocol::job_id::f58;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The reason for which an agent drains a rank whose pod stops. People drain ranks for other reasons.
pub(crate) const REASON: &str = "flux-agent: its pod is stopping";
/// Pause before each look at the running jobs: Flux lists a job a moment after its start.
const INTERVAL: Duration = Duration::from_millis(500);
/// Most jobs whose ids are reported to people.
const JOBS: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnRank {
    pub(crate) broker: BrokerAddress,
    pub(crate) rank: u32,
}

impl OwnRank {
    /// Drains the rank and those below it in the tree, whose brokers end with this one, unless they are drained already.
    /// Then waits until no job runs there, at most for `patience`, and gives the ids of the jobs that still run.
    pub(crate) async fn leave(&self, patience: Duration) -> Result<Vec<String>, SocketError> {
        let deadline = Instant::now() + patience;
        let mut socket = self.broker.connect().await?;
        let subtree = socket.subtree(self.rank).await;
        let ranks = subtree.unwrap_or_else(|_| vec![self.rank]);
        let status = resource::status(&mut socket).await?;
        let is_free = |rank: &u32| status.drain_reason(*rank).is_none();
        let targets: Vec<u32> = ranks.iter().copied().filter(is_free).collect();
        if !targets.is_empty() {
            resource::drain(&mut socket, &targets, REASON).await?;
        }
        loop {
            sleep(INTERVAL.min(patience)).await;
            let jobs = job_list::running_on(&mut socket, &ranks, JOBS).await?;
            if jobs.is_empty() || Instant::now() + INTERVAL > deadline {
                return Ok(jobs.into_iter().map(f58).collect());
            }
        }
    }

    /// Undrains the rank if the agent of an earlier pod has drained it. The result is whether it had.
    pub(crate) async fn take(&self) -> Result<bool, SocketError> {
        let mut socket = self.broker.connect().await?;
        let status = resource::status(&mut socket).await?;
        let is_left = status.drain_reason(self.rank) == Some(REASON);
        if is_left {
            resource::undrain(&mut socket, self.rank).await?;
        }
        Ok(is_left)
    }
}
