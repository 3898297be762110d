//! Counts the jobs of an instance that ends: later, when its pods are gone, nobody else knows them.

use flux_contract::JobNumbers;
use flux_protocol::client::{BrokerAddress, job_list};
use flux_protocol::job::JobState;
use std::time::Duration;
use tokio::time::timeout;

/// How long the broker may take for an answer that it has in memory.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The numbers of jobs at this moment; none where the lead's `broker` does not answer in time.
pub(crate) async fn job_numbers(broker: &BrokerAddress) -> Option<JobNumbers> {
    let answer = async { job_list::count(&mut broker.connect().await?).await };
    let counts = timeout(ANSWER_TIMEOUT, answer).await.ok()?.ok()?;
    Some(JobNumbers {
        successful: counts.successful,
        failed: counts.failed,
        canceled: counts.canceled,
        timed_out: counts.timeout,
        unfinished: counts.in_states(JobState::RUNNING),
        not_run: counts.in_states(JobState::PENDING),
    })
}
