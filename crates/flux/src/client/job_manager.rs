//! The service job-manager (flux-core, `src/modules/job-manager`): the jobs of this user, queues, the journal.

use crate::client::socket::{BrokerAddress, BrokerSocket, LEAD, Result, field};
use crate::eventlog::Event;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::timeout;

/// How long a connection and an answer from memory may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Answers with the events of all jobs (flux-core, `src/modules/job-manager/journal.c`).
const JOURNAL: &str = "job-manager.events-journal";
/// The id of the entry that follows the last event from before the request.
const BACKLOG_END: i64 = -1;

/// Events of a job that the journal reports together.
#[derive(Debug, Deserialize)]
pub struct JournalEntry {
    id: i64,
    /// The events, in order.
    #[serde(default)]
    pub events: Vec<Event>,
}

impl JournalEntry {
    /// The id of the job, if the entry is about one.
    pub fn job(&self) -> Option<u64> {
        self.id.try_into().ok()
    }

    /// The entry follows the last event from before the request.
    pub const fn is_end_of_backlog(&self) -> bool {
        self.id == BACKLOG_END
    }
}

/// The ids of this user's newest jobs, the newest first, at most `limit`. None where the broker does not answer in time.
pub async fn newest(broker: &BrokerAddress, limit: usize) -> Option<Vec<u64>> {
    let slice = json!({ "slice": format!("[:{limit}]") });
    ask(broker, "job-manager.history.get", Some(&slice), "jobs").await
}

/// The ids of this user's jobs that are newer than those of `before`, the newest first, at most one more than `limit`.
pub async fn since(broker: &BrokerAddress, before: &[u64], limit: usize) -> Option<Vec<u64>> {
    let mut newer = newest(broker, limit + 1).await?;
    newer.truncate(newer.iter().position(|id| before.contains(id)).unwrap_or(newer.len()));
    Some(newer)
}

/// The number of jobs that have not ended. None where the broker does not answer in time.
pub async fn active(broker: &BrokerAddress) -> Option<u64> {
    ask(broker, "job-manager.stats-get", None, "active_jobs").await
}

/// The field `name` of the lead's answer.
async fn ask<Field: DeserializeOwned>(
    broker: &BrokerAddress,
    topic: &str,
    payload: Option<&Value>,
    name: &str,
) -> Option<Field> {
    let answer = timeout(ANSWER_TIMEOUT, broker.ask(topic, LEAD, payload)).await;
    field(answer.ok()?.ok()?, name).ok()
}

/// Cancels the job `id`, for a reason if one is given.
pub async fn cancel(socket: &mut BrokerSocket, id: u64, reason: Option<&str>) -> Result<()> {
    let mut asked = json!({ "id": id, "severity": 0, "type": "cancel" });
    if let Some(reason) = reason {
        asked["note"] = reason.into();
    }
    socket.ask_lead("job-manager.raise", &asked).await.map(|_: Value| ())
}

/// Sends the signal to the processes of the job `id`, which has to run.
pub async fn signal(broker: &BrokerAddress, id: u64, signal: i32) -> Result<()> {
    let asked = json!({ "id": id, "signum": signal });
    broker.ask("job-manager.kill", LEAD, Some(&asked)).await.map(|_: Value| ())
}

/// Starts all named queues (flux-config-queues(5)) and gives their names. Flux leaves them stopped until somebody starts
/// them, and gives no reason why a job waits in one.
pub async fn start_queues(broker: &BrokerAddress) -> Result<Vec<String>> {
    let mut socket = broker.connect().await?;
    let listed = socket.ask_lead("job-manager.queue-list", &json!({})).await?;
    let queues: Vec<String> = field(listed, "queues")?;
    if !queues.is_empty() {
        let start = json!({ "all": true, "start": true });
        let () = socket.ask_lead("job-manager.queue-start", &start).await?;
    }
    Ok(queues)
}

/// Asks for the events of all jobs, first those of the backlog. Only [`next_entry`] may follow.
pub async fn follow_journal(socket: &mut BrokerSocket) -> Result<()> {
    socket.stream(JOURNAL, LEAD, Some(&json!({ "full": false }))).await
}

/// Waits for the next entry of the journal; none at its end.
pub async fn next_entry(socket: &mut BrokerSocket) -> Result<Option<JournalEntry>> {
    socket.next(JOURNAL).await
}
