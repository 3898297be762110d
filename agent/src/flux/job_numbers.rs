//! Counts the jobs of an instance that ends: later, when its pods are gone, nobody else knows them.

use crate::flux::broker_watch::ANSWER_TIMEOUT;
use flux_contract::JobNumbers;
use flux_protocol::client::{BrokerAddress, job_list};
use flux_protocol::job::JobState;
use tokio::time::timeout;

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
