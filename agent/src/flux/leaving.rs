//! How a worker leaves an instance that goes on, and how the next pod of its rank takes its place: a drained rank gets
//! no new job, and those that run there may end (flux-resource(1)). The services are those of the broker of rank 0
//! (flux-core, `src/modules/resource` and `src/modules/job-list`).

use crate::flux::broker_socket::{BrokerAddress, SocketError};
use crate::flux::instance::Status;
use flux_contract::job_id::f58;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Why a rank is drained that has lost its pod. Whatever else is drained, a person has drained.
pub(crate) const REASON: &str = "flux-agent: its pod is stopping";
/// Before each look whether jobs still run: what was started just before the drain is listed a moment later.
const INTERVAL: Duration = Duration::from_millis(500);
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
        if reason(&Status::of(&mut socket).await?, self.rank).is_none() {
            let drain = json!({ "targets": self.rank.to_string(), "reason": REASON });
            let () = socket.ask_lead("resource.drain", &drain).await?;
        }
        let running =
            json!({ "and": [{ "states": ["running"] }, { "ranks": [self.rank.to_string()] }] });
        loop {
            sleep(INTERVAL.min(patience)).await;
            let list = json!({ "max_entries": JOBS, "attrs": [], "constraint": running });
            let List { jobs } = socket.ask_lead("job-list.list", &list).await?;
            if jobs.is_empty() || Instant::now() + INTERVAL > deadline {
                return Ok(jobs.into_iter().map(|job| f58(job.id)).collect());
            }
        }
    }

    /// Lifts the drain that the pod that was here before has left; says whether there was one.
    pub(crate) async fn take(&self) -> Result<bool, SocketError> {
        let mut socket = self.broker.connect().await?;
        let status = Status::of(&mut socket).await?;
        let is_left = reason(&status, self.rank) == Some(REASON);
        if is_left {
            let targets = json!({ "targets": self.rank.to_string() });
            let () = socket.ask_lead("resource.undrain", &targets).await?;
        }
        Ok(is_left)
    }
}

/// Why `rank` is drained, if it is.
fn reason(status: &Status, rank: u32) -> Option<&str> {
    status.drained().find_map(|(drained, reason)| (drained == rank).then_some(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As recorded from flux-core 0.88.
    const STATUS: &str = r#"{"R": {"version": 1}, "drain": {"1,3": {"timestamp": 1795380311.0, "reason": "flux-agent: its pod is stopping"}, "2": {"timestamp": 1.0, "reason": "bad fan"}, "5": {"timestamp": 1.0}}, "online": "0-5"}"#;

    #[test]
    fn what_a_person_has_drained_differs_from_what_a_pod_has_left() {
        let status = serde_json::from_str(STATUS).unwrap();
        let reasons = [0, 1, 2, 3, 5].map(|rank| reason(&status, rank));
        assert_eq!(reasons, [None, Some(REASON), Some("bad fan"), Some(REASON), Some("")]);
    }
}
