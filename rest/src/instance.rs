//! How the instance stands: its ranks, its broker, and what it waits for.

use flux_contract::Phase;
use flux_protocol::client::job_list::{self, JobCounts};
use flux_protocol::client::{BrokerSocket, LEAD, SocketError, resource};
use flux_protocol::idset::ids_of;
use flux_protocol::job::JobState;
use flux_protocol::job_id::f58_plain;
use flux_protocol::{Hostlist, RankStatus};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Jobs that run and are looked at; their ranks fit into one answer of the broker.
const MOST_RUNNING: usize = 20_000;

/// A rank, and what runs there.
#[derive(Debug)]
pub(crate) struct Rank {
    pub(crate) of: RankStatus,
    pub(crate) hostname: Option<String>,
    pub(crate) jobs: Vec<String>,
}

impl Rank {
    pub(crate) fn document(&self) -> Value {
        let RankStatus { rank, up, cores, cores_allocated, gpus, gpus_allocated, drained } =
            &self.of;
        json!({
            "rank": rank, "hostname": self.hostname, "state": if *up { "up" } else { "lost" }, "cores": cores,
            "cores_allocated": cores_allocated, "gpus": gpus, "gpus_allocated": gpus_allocated, "drained": drained,
            "jobs": self.jobs,
        })
    }
}

#[derive(Deserialize)]
struct RunningJob {
    id: u64,
    #[serde(default)]
    ranks: String,
}

/// An attribute of the lead's broker, empty where it is not set.
pub(crate) async fn lead_attribute(
    socket: &mut BrokerSocket,
    name: &str,
) -> Result<String, SocketError> {
    Ok(socket.attribute(LEAD, name).await?.unwrap_or_default())
}

/// The ranks with their hosts and jobs.
pub(crate) async fn resources(socket: &mut BrokerSocket) -> Result<Vec<Rank>, SocketError> {
    let ranks = resource::ranks(socket).await?;
    let hosts = lead_attribute(socket, "hostlist").await.unwrap_or_default();
    let constraint = json!({ "states": [JobState::RUNNING] });
    let jobs: Vec<RunningJob> = job_list::list(socket, MOST_RUNNING, "ranks", &constraint).await?;
    Ok(with_jobs(ranks, &hosts, &jobs))
}

fn with_jobs(ranks: Vec<RankStatus>, hosts: &str, jobs: &[RunningJob]) -> Vec<Rank> {
    let mut of_rank: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for job in jobs {
        for rank in ids_of(&job.ranks).unwrap_or_default() {
            of_rank.entry(rank).or_default().push(f58_plain(job.id));
        }
    }
    let hosts = Hostlist::parse(hosts).map(|hosts| hosts.hosts().collect::<Vec<_>>());
    let hosts = hosts.unwrap_or_default();
    let rank = |of: RankStatus| {
        let hostname = hosts.get(of.rank as usize).cloned();
        let jobs = of_rank.remove(&of.rank).unwrap_or_default();
        Rank { of, hostname, jobs }
    };
    ranks.into_iter().map(rank).collect()
}

/// What is known while the instance starts, too.
#[derive(Debug)]
pub(crate) struct Standing {
    state: String,
    size: u32,
    up: u32,
    quorum: u32,
    started: f64,
    jobs: JobCounts,
}

impl Standing {
    /// Asks services of the broker itself, and one that there is from rc1 on.
    pub(crate) async fn of(socket: &mut BrokerSocket) -> Result<Self, SocketError> {
        let state = socket.state(LEAD).await?;
        let up = socket.online(LEAD).await?.len();
        let jobs = match job_list::count(socket).await {
            Err(SocketError::Failed { .. }) => JobCounts::default(),
            counts => counts?,
        };
        Ok(Self {
            state,
            size: number(&lead_attribute(socket, "size").await?),
            up: up.try_into().unwrap_or(u32::MAX),
            quorum: number(&lead_attribute(socket, "broker.quorum").await.unwrap_or_default()),
            started: number(&lead_attribute(socket, "broker.starttime").await.unwrap_or_default()),
            jobs,
        })
    }

    /// The document of the instance `name` at `now`, in seconds of Unix time; its start took these phases.
    pub(crate) fn document(&self, name: &str, timeline: &[Phase], now: f64) -> Value {
        let phase = |phase: &Phase| {
            let seconds = |milliseconds| Duration::from_millis(milliseconds).as_secs_f64();
            let (start, duration) = (phase.start_milliseconds, phase.duration_milliseconds);
            json!({ "phase": phase.name, "start": seconds(start), "seconds": seconds(duration) })
        };
        let count = |states| self.jobs.in_states(states);
        json!({
            "name": name, "state": self.state, "size": self.size, "up": self.up, "quorum": self.quorum,
            "started": self.started, "uptime": (now - self.started).max(0.0), "waits": self.waits(),
            "timeline": timeline.iter().map(phase).collect::<Value>(), "jobs": {
                "pending": count(JobState::PENDING), "running": count(JobState::RUNNING),
                "inactive": count(JobState::Inactive.number()), "failed": self.jobs.failed,
            },
        })
    }

    /// By the states of a broker (RFC 42).
    fn waits(&self) -> Option<String> {
        let Self { up, size, quorum, .. } = self;
        match self.state.as_str() {
            "run" => None,
            "none" | "join" => Some("its lead broker starts".to_owned()),
            "init" => Some("its lead broker loads its modules (rc1)".to_owned()),
            "quorum" => Some(format!(
                "it waits for {} more of its ranks: {up} of {size} are up, {quorum} are the quorum",
                quorum.saturating_sub(*up)
            )),
            other => Some(format!("it ends (broker state {other})")),
        }
    }
}

pub(crate) fn number<Number: std::str::FromStr + Default>(text: &str) -> Number {
    text.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_has_its_host_and_the_jobs_that_run_there() {
        let report = |rank| RankStatus { rank, up: rank == 0, cores: 2, ..RankStatus::default() };
        let jobs =
            [(1, "[0-1]"), (57, "1")].map(|(id, ranks)| RunningJob { id, ranks: ranks.to_owned() });
        let ranks = with_jobs(vec![report(0), report(1), report(2)], "a-[0-1]", &jobs);
        let found: Vec<_> = ranks.iter().map(Rank::document).collect();
        let found = json!([found[0]["state"], found[1], found[2]["hostname"], found[2]["drained"]]);
        insta::assert_snapshot!(found, @r#"["up",{"cores":2,"cores_allocated":0,"drained":null,"gpus":0,"gpus_allocated":0,"hostname":"a-1","jobs":["f2","fz"],"rank":1,"state":"lost"},null,null]"#);
    }

    #[test]
    fn an_instance_says_what_it_waits_for() {
        let standing = |state: &str| {
            let jobs = r#"{"job_states":{"sched":2,"priority":1,"cleanup":1,"run":3},"failed":4}"#;
            let jobs = serde_json::from_str(jobs).unwrap();
            let state = state.to_owned();
            Standing { state, size: 4, up: 1, quorum: 3, started: 10.0, jobs }
        };
        let phase =
            Phase { name: "hooks".to_owned(), start_milliseconds: 0, duration_milliseconds: 1500 };
        let document = standing("quorum").document("a", &[phase], 12.5);
        insta::assert_snapshot!(document, @r#"{"jobs":{"failed":4,"inactive":0,"pending":3,"running":4},"name":"a","quorum":3,"size":4,"started":10.0,"state":"quorum","timeline":[{"phase":"hooks","seconds":1.5,"start":0.0}],"up":1,"uptime":2.5,"waits":"it waits for 2 more of its ranks: 1 of 4 are up, 3 are the quorum"}"#);
        let waits = ["run", "shutdown"].map(|state| standing(state).waits());
        assert_eq!(waits, [None, Some("it ends (broker state shutdown)".to_owned())]);
    }
}
