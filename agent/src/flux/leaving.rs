//! How a worker leaves an instance that goes on, and how the next pod of its rank takes its place: a drained rank gets
//! no new job, and those that run there may end (flux-resource(1)). The services are those of the broker of rank 0
//! (flux-core, `src/modules/resource` and `src/modules/job-list`).

use crate::flux::broker_socket::{BrokerAddress, BrokerSocket, NODE_ANY, SocketError};
use crate::flux::instance::{Status, list};
use flux_contract::idset::{ids_of, idset};
use flux_contract::job_id::f58;
use nix::errno::Errno;
use serde::Deserialize;
use serde_json::json;
use std::iter;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Why a rank is drained that has lost its pod. Whatever else is drained, a person has drained.
pub(crate) const REASON: &str = "flux-agent: its pod is stopping";
/// Before each look whether jobs still run: what was started just before the drain is listed a moment later.
const INTERVAL: Duration = Duration::from_millis(500);
/// Jobs that are asked for at most: their ids are for people.
const JOBS: usize = 20;
/// The states `RUN` and `CLEANUP` (flux-core, `src/common/libjob/job.h`).
const RUNNING: u32 = 16 | 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnRank {
    pub(crate) broker: BrokerAddress,
    pub(crate) rank: u32,
}

#[derive(Deserialize)]
struct Job {
    id: u64,
    ranks: Option<String>,
}

/// Of the answer of `overlay.topology`: a rank and those below it.
#[derive(Deserialize)]
struct Subtree {
    rank: u32,
    #[serde(default)]
    children: Vec<Self>,
}

impl Subtree {
    fn ranks(&self) -> Vec<u32> {
        let below = self.children.iter().flat_map(Self::ranks);
        iter::once(self.rank).chain(below).collect()
    }
}

impl OwnRank {
    /// Drains the rank and those below it in the tree, whose brokers end with this one, unless they are drained already,
    /// and waits until no job runs there or `patience` is over. The answer is the ids of those that still run, as people
    /// write them.
    pub(crate) async fn leave(&self, patience: Duration) -> Result<Vec<String>, SocketError> {
        let deadline = Instant::now() + patience;
        let mut socket = self.broker.connect().await?;
        let ranks = self.ranks_that_leave(&mut socket).await;
        let status = Status::of(&mut socket).await?;
        let is_free = |rank: &u32| reason(&status, *rank).is_none();
        let targets: Vec<u32> = ranks.iter().copied().filter(is_free).collect();
        if !targets.is_empty() {
            let drain = json!({ "targets": idset(&targets), "reason": REASON });
            let () = socket.ask_lead("resource.drain", &drain).await?;
        }
        loop {
            sleep(INTERVAL.min(patience)).await;
            let jobs = running(&mut socket, &ranks).await?;
            if jobs.is_empty() || Instant::now() + INTERVAL > deadline {
                return Ok(jobs.into_iter().map(f58).collect());
            }
        }
    }

    /// This rank, and those below it in the tree as far as the broker knows them.
    async fn ranks_that_leave(&self, socket: &mut BrokerSocket) -> Vec<u32> {
        let asked = json!({ "rank": self.rank });
        let subtree = socket.ask::<Subtree>("overlay.topology", NODE_ANY, Some(&asked)).await;
        let mut ranks = subtree.map_or_else(|_| vec![self.rank], |subtree| subtree.ranks());
        ranks.sort_unstable();
        ranks
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

/// The jobs that run on any of `ranks`. A release before flux-core 0.64 cannot be asked for ranks (`src/modules/job-list/match.c`),
/// and one before 0.53 takes states as bits: then all jobs that run are looked through.
async fn running(socket: &mut BrokerSocket, ranks: &[u32]) -> Result<Vec<u64>, SocketError> {
    let states = json!({ "states": ["running"] });
    let there = json!({ "and": [states, { "ranks": [idset(ranks)] }] });
    let asked = json!({ "max_entries": JOBS, "attrs": [], "constraint": there });
    match list::<Job>(socket, &asked).await {
        Ok(jobs) => return Ok(jobs.into_iter().map(|job| job.id).collect()),
        Err(error) if error.is(Errno::EPROTO) || error.is(Errno::EINVAL) => {}
        Err(error) => return Err(error),
    }
    let asked = json!({
        "max_entries": 0, "attrs": ["ranks"], "constraint": states,
        "states": RUNNING, "results": 0, "userid": u32::MAX,
    });
    let jobs = list(socket, &asked).await?;
    let there = |job: &Job| {
        let of_job = job.ranks.as_deref().and_then(ids_of).unwrap_or_default();
        of_job.iter().any(|rank| ranks.contains(rank))
    };
    Ok(jobs.into_iter().filter(there).map(|job| job.id).take(JOBS).collect())
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
