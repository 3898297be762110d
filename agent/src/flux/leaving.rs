//! How a worker leaves an instance that goes on, and how the next pod of its rank takes its place: a drained rank gets
//! no new job, and those that run there may end (flux-resource(1)). The services are those of the broker of rank 0
//! (flux-core, `src/modules/resource` and `src/modules/job-list`).

use crate::flux::broker_socket::{BrokerAddress, BrokerSocket, LEAD, SocketError};
use crate::flux::resources::ids_of;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Why a rank is drained that has lost its pod. Whatever else is drained, a person has drained.
pub(crate) const REASON: &str = "flux-agent: its pod is stopping";
/// Before each look whether jobs still run: what was started just before the drain is listed a moment later.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long an answer may take: it is the lead's, and may come over several brokers.
const PATIENCE: Duration = Duration::from_secs(5);
/// Jobs that are asked for at most: their ids are for people.
const JOBS: u32 = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnRank {
    pub(crate) broker: BrokerAddress,
    pub(crate) rank: u32,
}

/// Of the answer of `job-list.list`.
#[derive(Deserialize)]
struct List {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    id: u64,
}

impl OwnRank {
    /// Drains the rank, unless it is drained already, and waits until no job runs there or `patience` is
    /// over. The answer is the ids of those that still run, as people write them.
    pub(crate) async fn leave(&self, patience: Duration) -> Result<Vec<String>, SocketError> {
        let deadline = Instant::now() + patience;
        let mut socket = self.broker.connect().await?;
        if reason(&status(&mut socket).await?, self.rank).is_none() {
            let drain = json!({ "targets": self.rank.to_string(), "reason": REASON });
            let () = ask(&mut socket, "resource.drain", drain).await?;
        }
        let running =
            json!({ "and": [{ "states": ["running"] }, { "ranks": [self.rank.to_string()] }] });
        loop {
            sleep(INTERVAL.min(patience)).await;
            let list = json!({ "max_entries": JOBS, "attrs": [], "constraint": running });
            let List { jobs } = ask(&mut socket, "job-list.list", list).await?;
            if jobs.is_empty() || Instant::now() + INTERVAL > deadline {
                return Ok(jobs.into_iter().map(|job| f58(job.id)).collect());
            }
        }
    }

    /// Lifts the drain that the pod that was here before has left; says whether there was one.
    pub(crate) async fn take(&self) -> Result<bool, SocketError> {
        let mut socket = self.broker.connect().await?;
        let status = status(&mut socket).await?;
        let is_left = reason(&status, self.rank) == Some(REASON);
        if is_left {
            let targets = json!({ "targets": self.rank.to_string() });
            let () = ask(&mut socket, "resource.undrain", targets).await?;
        }
        Ok(is_left)
    }
}

async fn status(socket: &mut BrokerSocket) -> Result<Value, SocketError> {
    ask(socket, "resource.status", json!({})).await
}

/// What the lead answers, if it does so in time.
async fn ask<Answer: DeserializeOwned>(
    socket: &mut BrokerSocket,
    topic: &str,
    payload: Value,
) -> Result<Answer, SocketError> {
    let answer = timeout(PATIENCE, socket.ask(topic, LEAD, Some(&payload))).await;
    answer.unwrap_or_else(|_| Err(SocketError::Silent { topic: topic.to_owned() }))
}

/// Why `rank` is drained, if it is, by the answer of `resource.status`. A reason need not be given.
fn reason(status: &Value, rank: u32) -> Option<&str> {
    let has = |ranks: &str| ids_of(ranks).is_some_and(|ranks| ranks.contains(&rank));
    let (_, drained) = status.get("drain")?.as_object()?.iter().find(|(ranks, _)| has(ranks))?;
    Some(drained.get("reason").and_then(Value::as_str).unwrap_or_default())
}

/// The id of a job as Flux prints it (RFC 19): a prefix, and a number in base 58 as Bitcoin writes it.
fn f58(id: u64) -> String {
    let bytes = id.to_be_bytes();
    let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len() - 1);
    format!("ƒ{}", bs58::encode(&bytes[first..]).into_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As recorded from flux-core 0.88.
    const STATUS: &str = r#"{"R": {"version": 1}, "drain": {"1,3": {"timestamp": 1795380311.0, "reason": "flux-agent: its pod is stopping"}, "2": {"timestamp": 1.0, "reason": "bad fan"}, "5": {"timestamp": 1.0}}, "online": "0-5"}"#;

    #[test]
    fn what_a_person_has_drained_is_told_from_what_a_pod_has_left() {
        let status: Value = serde_json::from_str(STATUS).unwrap();
        let reasons = [0, 1, 2, 3, 5].map(|rank| reason(&status, rank));
        assert_eq!(reasons, [None, Some(REASON), Some("bad fan"), Some(REASON), Some("")]);
    }

    #[test]
    fn jobs_are_named_as_flux_names_them() {
        // As `flux job id --to=f58` of flux-core 0.88 prints them.
        assert_eq!(f58(25_568_477_184), "ƒfxQ8UX");
        assert_eq!((f58(0).as_str(), f58(57).as_str(), f58(58).as_str()), ("ƒ1", "ƒz", "ƒ21"));
    }
}
