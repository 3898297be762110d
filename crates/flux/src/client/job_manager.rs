//! What the instance's job manager says of its jobs (flux-core, `src/modules/job-manager`). `flux job last` and `flux
//! module stats` ask the same, each as a process.

use crate::flux::broker_socket::{BrokerAddress, LEAD, SocketError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

/// How long one answer may take, which is given from memory.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct History {
    jobs: Vec<u64>,
}

#[derive(Deserialize)]
struct Stats {
    active_jobs: u64,
}

/// The ids of this user's jobs, the newest first, `most` of them.
pub(crate) async fn newest(broker: &BrokerAddress, most: usize) -> Option<Vec<u64>> {
    let slice = json!({ "slice": format!("[:{most}]") });
    let History { jobs } = ask(broker, "job-manager.history.get", Some(&slice)).await?;
    Some(jobs)
}

/// The ids of this user's jobs since `before`, the newest first, at most one more than `most`.
pub(crate) async fn since(broker: &BrokerAddress, before: &[u64], most: usize) -> Option<Vec<u64>> {
    let mut newer = newest(broker, most + 1).await?;
    newer.truncate(newer.iter().position(|id| before.contains(id)).unwrap_or(newer.len()));
    Some(newer)
}

/// How many jobs are pending, running or about to end.
pub(crate) async fn active(broker: &BrokerAddress) -> Option<u64> {
    let Stats { active_jobs } = ask(broker, "job-manager.stats-get", None).await?;
    Some(active_jobs)
}

/// The answer to a question, if there is one in time.
async fn ask<Answer: DeserializeOwned>(
    broker: &BrokerAddress,
    topic: &str,
    payload: Option<&Value>,
) -> Option<Answer> {
    let asked = async {
        let answer = broker.connect().await?.ask(topic, LEAD, payload).await?;
        Ok::<Answer, SocketError>(answer)
    };
    timeout(PATIENCE, asked).await.ok()?.ok()
}
