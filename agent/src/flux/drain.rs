//! Drains the rank of a worker whose pod stops, and undrains it for the next pod: a drained rank gets no new job, and its
//! running jobs may end (flux-resource(1)).

use flux_protocol::client::{BrokerAddress, SocketError, job_list, resource};
use flux_protocol::job_id::f58;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The reason with which an agent drains a rank. People drain ranks with other reasons.
pub(crate) const REASON: &str = "flux-agent: its pod is stopping";
/// Pause before each request for the running jobs, because Flux lists a job a moment after its start.
const INTERVAL: Duration = Duration::from_millis(500);
/// Most jobs whose ids are reported to people.
const JOBS: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnRank {
    pub(crate) broker: BrokerAddress,
    pub(crate) rank: u32,
}

impl OwnRank {
    /// Drains the rank and the ranks below it in the tree, whose brokers end with this one, unless they are drained. Then
    /// waits until no job runs there, at most for `limit`, and returns the ids of the jobs that still run.
    pub(crate) async fn drain_and_wait(&self, limit: Duration) -> Result<Vec<String>, SocketError> {
        let deadline = Instant::now() + limit;
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
            sleep(INTERVAL.min(limit)).await;
            let jobs = job_list::running_on(&mut socket, &ranks, JOBS).await?;
            if jobs.is_empty() || Instant::now() + INTERVAL > deadline {
                return Ok(jobs.into_iter().map(f58).collect());
            }
        }
    }

    /// Undrains the rank if the agent of an earlier pod has drained it, and returns whether it had.
    pub(crate) async fn undrain(&self) -> Result<bool, SocketError> {
        let mut socket = self.broker.connect().await?;
        let status = resource::status(&mut socket).await?;
        let is_drained = status.drain_reason(self.rank) == Some(REASON);
        if is_drained {
            resource::undrain(&mut socket, self.rank).await?;
        }
        Ok(is_drained)
    }
}
