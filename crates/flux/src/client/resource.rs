//! What the instance of this pod's broker has and does: its ranks, its jobs, and what a job has printed. `flux resource
//! list` and `flux jobs` ask the same services (flux-core, `src/modules/resource`, `job-list` and `job-info`), each as a
//! process of Python.

use crate::flux::broker_socket::{BrokerAddress, BrokerSocket, SocketError};
use crate::flux::output::output;
use flux_contract::idset::ids_of;
use flux_contract::instance::{JobReport, JobState, RankReport};
use flux_contract::job_id::f58;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Jobs that are asked for at most, so that the answer is no longer than an answer may be.
const MOST_JOBS: u32 = 5000;
/// What is asked of each job.
const ATTRIBUTES: [&str; 10] = [
    "userid",
    "name",
    "state",
    "result",
    "ntasks",
    "nnodes",
    "ranks",
    "t_submit",
    "t_run",
    "t_inactive",
];
/// Jobs that wait for resources and are listed at most.
const MOST_WAITING: u32 = 4000;
/// A job that waits for resources (flux-core, `src/common/libjob/job.h`).
const SCHED: u32 = 8;
/// Bytes of output that are kept: what was printed last.
const MOST_OUTPUT: usize = 64 << 10;

/// An instance that is asked by a broker of it.
pub(crate) struct Instance {
    socket: BrokerSocket,
}

impl Instance {
    pub(crate) async fn connect(broker: &BrokerAddress) -> Result<Self, SocketError> {
        Ok(Self { socket: broker.connect().await? })
    }

    pub(crate) async fn ranks(&mut self) -> Result<Vec<RankReport>, SocketError> {
        ranks_of(&mut self.socket).await
    }

    /// The jobs that have not ended, or `all` of them, as they stand `now`, in seconds of Unix time.
    pub(crate) async fn jobs(
        &mut self,
        all: bool,
        now: f64,
        name_of: impl Fn(u32) -> String,
    ) -> Result<Vec<JobReport>, SocketError> {
        let states: &[_] =
            if all { &["pending", "running", "inactive"] } else { &["pending", "running"] };
        let asked = json!({
            "max_entries": MOST_JOBS, "attrs": ATTRIBUTES, "constraint": { "states": states },
        });
        let jobs: Vec<Job> = list(&mut self.socket, &asked).await?;
        Ok(jobs.into_iter().map(|job| job.report(now, &name_of)).collect())
    }

    /// The jobs that wait for resources, those first that get them first; of very many, the first ones. What is held
    /// back by its urgency waits for a person.
    pub(super) async fn waiting(&mut self) -> Result<Vec<WaitingJob>, SocketError> {
        let asked = json!({
            "max_entries": MOST_WAITING,
            "attrs": ["state", "priority", "ntasks", "nnodes", "ncores"],
            "constraint": { "states": ["sched"] },
        });
        let jobs: Vec<Queued> = list(&mut self.socket, &asked).await?;
        let waits = |job: &Queued| job.state == SCHED && job.priority != Some(0);
        let waiting = jobs.into_iter().filter(waits);
        Ok(waiting
            .map(|it| WaitingJob { nodes: it.nnodes, cores: it.ncores, tasks: it.ntasks })
            .collect())
    }

    /// What the job has printed last, and whether it has printed more.
    pub(crate) async fn output(&mut self, id: u64) -> Result<(String, bool), SocketError> {
        let (bytes, cut) = output(&mut self.socket, id, None, MOST_OUTPUT).await?;
        Ok((String::from_utf8_lossy(&bytes).into_owned(), cut))
    }
}

/// The jobs that are asked for (flux-core, `src/modules/job-list`), with what is to be known of each.
pub(crate) async fn list<Job: DeserializeOwned>(
    socket: &mut BrokerSocket,
    asked: &Value,
) -> Result<Vec<Job>, SocketError> {
    #[derive(Deserialize)]
    struct List<Job> {
        jobs: Vec<Job>,
    }
    let List { jobs } = socket.ask_lead("job-list.list", asked).await?;
    Ok(jobs)
}

/// The ranks of the instance that is asked at `socket`.
pub(crate) async fn ranks_of(socket: &mut BrokerSocket) -> Result<Vec<RankReport>, SocketError> {
    let resources = socket.ask_lead("resource.sched-status", &json!({})).await?;
    let status = Status::of(socket).await?;
    Ok(ranks(&resources, &status))
}

/// What a job that waits for resources asks for, as far as its jobspec says (flux-core, `parse_jobspec` of
/// `src/modules/job-list/job_data.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WaitingJob {
    /// Absent for one that takes its cores wherever they are.
    pub(super) nodes: Option<usize>,
    /// In all; absent for one that takes whole nodes.
    pub(super) cores: Option<usize>,
    pub(super) tasks: usize,
}

#[derive(Deserialize)]
struct Queued {
    state: u32,
    priority: Option<i64>,
    nnodes: Option<usize>,
    ncores: Option<usize>,
    #[serde(default)]
    ntasks: usize,
}

/// Resource sets (RFC 20).
#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources {
    all: Set,
    down: Set,
    allocated: Set,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Set {
    execution: Execution,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Execution {
    #[serde(rename = "R_lite")]
    hosts: Vec<Hosts>,
}

#[derive(Deserialize)]
struct Hosts {
    rank: String,
    children: BTreeMap<String, String>,
}

impl Set {
    /// Each rank, with how many cores and GPUs it has.
    fn each(&self) -> impl Iterator<Item = (u32, [usize; 2])> {
        self.execution.hosts.iter().flat_map(|hosts| {
            let count = |kind| {
                let ids = hosts.children.get(kind).and_then(|ids| ids_of(ids));
                ids.map_or(0, |ids| ids.len())
            };
            let counts = ["core", "gpu"].map(count);
            ids_of(&hosts.rank).unwrap_or_default().into_iter().map(move |rank| (rank, counts))
        })
    }
}

/// Of the answer of `resource.status`: sets of ranks.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    drain: BTreeMap<String, Drained>,
    offline: Option<String>,
}

impl Status {
    pub(super) async fn of(socket: &mut BrokerSocket) -> Result<Self, SocketError> {
        socket.ask_lead("resource.status", &json!({})).await
    }

    /// Each rank that is drained, and why. A reason need not be given.
    pub(super) fn drained(&self) -> impl Iterator<Item = (u32, &str)> {
        self.drain.iter().flat_map(|(ranks, why)| {
            let reason = why.reason.as_deref().unwrap_or_default();
            ids_of(ranks).unwrap_or_default().into_iter().map(move |rank| (rank, reason))
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Drained {
    reason: Option<String>,
}

/// The ranks, by the answers of `resource.sched-status` and `resource.status`. The first counts those that are drained as
/// down.
fn ranks(resources: &Resources, status: &Status) -> Vec<RankReport> {
    let mut ranks: BTreeMap<u32, RankReport> = BTreeMap::new();
    for (rank, [cores, gpus]) in resources.all.each() {
        let of_rank = ranks.entry(rank).or_default();
        *of_rank = RankReport { rank, up: true, cores, gpus, ..RankReport::default() };
    }
    for (rank, [cores, gpus]) in resources.allocated.each() {
        if let Some(of_rank) = ranks.get_mut(&rank) {
            of_rank.cores_allocated += cores;
            of_rank.gpus_allocated += gpus;
        }
    }
    for (rank, reason) in status.drained() {
        if let Some(of_rank) = ranks.get_mut(&rank) {
            of_rank.drained = Some(reason.to_owned());
        }
    }
    // No rank at all is an empty text.
    let offline = status.offline.as_deref().map(|ids| ids_of(ids).unwrap_or_default());
    let are_offline = offline.is_some();
    let down: BTreeSet<u32> = match offline {
        Some(offline) => offline.into_iter().collect(),
        None => resources.down.each().map(|(rank, _)| rank).collect(),
    };
    let is_down =
        |it: &RankReport| down.contains(&it.rank) && (are_offline || it.drained.is_none());
    let ranks = ranks.into_values().map(|rank| RankReport { up: !is_down(&rank), ..rank });
    ranks.collect()
}

/// A job as `job-list.list` has it (flux-core, `src/modules/job-list/job_util.c`): what does not apply to it is left out.
#[derive(Deserialize)]
struct Job {
    id: u64,
    userid: u32,
    #[serde(default)]
    name: String,
    state: u32,
    result: Option<u32>,
    #[serde(default)]
    ntasks: u64,
    nnodes: Option<u64>,
    ranks: Option<String>,
    t_submit: Option<f64>,
    t_run: Option<f64>,
    t_inactive: Option<f64>,
}

impl Job {
    fn report(self, now: f64, name_of: &impl Fn(u32) -> String) -> JobReport {
        let state = self.state();
        let begun = self.t_run.or_else(|| self.t_submit.filter(|_| state.is_pending()));
        let end = self.t_inactive.unwrap_or(now);
        JobReport {
            id: f58(self.id),
            user: name_of(self.userid),
            name: self.name,
            state,
            tasks: self.ntasks,
            nodes: self.nnodes.filter(|_| self.ranks.is_some()),
            ranks: self.ranks,
            seconds: begun.map_or(0.0, |begun| (end - begun).max(0.0)),
        }
    }

    /// By the numbers of flux-core, `src/common/libjob/job.h`.
    fn state(&self) -> JobState {
        match (self.state, self.result) {
            (8, _) => JobState::Sched,
            (16, _) => JobState::Run,
            (32, _) => JobState::Cleanup,
            (64, Some(1)) => JobState::Completed,
            (64, Some(4)) => JobState::Canceled,
            (64, Some(8)) => JobState::Timeout,
            (64, _) => JobState::Failed,
            (_, _) => JobState::Depend,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_rank_has_its_cores_those_of_jobs_and_the_reason_of_its_drain() {
        let set = |rank: &str, children: Value| {
            json!({ "version": 1, "execution": {
                "R_lite": [{ "rank": rank, "children": children }], "nodelist": ["a-[0-3]"],
            }})
        };
        let resources = read(json!({
            "all": set("0-3", json!({ "core": "0-3", "gpu": "0" })),
            "down": set("2-3", json!({ "core": "0-3", "gpu": "0" })),
            "allocated": set("1-2", json!({ "core": "0-1" })),
        }));
        let drain = json!({ "2": { "timestamp": 1.0, "reason": "bad fan" } });
        let with = |status: Value| ranks(&resources, &read(status));
        let found = with(json!({ "drain": drain, "offline": "3", "online": "0-2" }));
        let free = |rank: &RankReport| (rank.up, rank.cores_free(), rank.gpus_free());
        let free_of_each: Vec<_> = found.iter().map(free).collect();
        assert_eq!(free_of_each, [(true, 4, 1), (true, 2, 1), (true, 0, 0), (false, 0, 0)]);
        assert_eq!(found[2].drained.as_deref(), Some("bad fan"));
        assert_eq!(found, with(json!({ "drain": drain })), "what is down and not drained");
        assert_eq!(ranks(&read(json!({})), &Status::default()), []);
    }

    #[test]
    fn a_job_has_a_state_or_a_result_and_a_time() {
        let job = |fields: Value| {
            let mut job = json!({ "id": 25_568_477_184_u64, "userid": 1000, "t_submit": 10.0 });
            job.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            read::<Job>(job).report(20.0, &|uid| format!("u{uid}"))
        };
        let waits = job(json!({ "state": 8, "name": "a", "ntasks": 2, "nnodes": 1 }));
        assert_eq!((waits.id.as_str(), waits.user.as_str()), ("ƒfxQ8UX", "u1000"));
        assert_eq!((waits.state, waits.seconds, waits.nodes), (JobState::Sched, 10.0, None));
        let runs = job(json!({ "state": 16, "t_run": 18.5, "nnodes": 2, "ranks": "[0-1]" }));
        assert_eq!((runs.state, runs.seconds, runs.nodes), (JobState::Run, 1.5, Some(2)));
        let ended = json!({ "state": 64, "result": 4, "t_run": 12.0, "t_inactive": 15.0 });
        assert_eq!((job(ended.clone()).state, job(ended).seconds), (JobState::Canceled, 3.0));
        let never = job(json!({ "state": 64, "result": 2, "t_inactive": 15.0 }));
        assert_eq!((never.state, never.seconds), (JobState::Failed, 0.0));
    }
}
