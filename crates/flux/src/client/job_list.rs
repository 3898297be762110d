//! The service job-list: the jobs of an instance (flux-core, `src/modules/job-list`).

use crate::client::socket::{BrokerSocket, LEAD, Result, field};
use crate::idset::{ids_of, idset};
use crate::job::{JobState, JobStatus};
use nix::errno::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Jobs that wait for resources and are read at most.
const WAITING_LIMIT: usize = 4000;
/// The name of the states [`JobState::RUNNING`].
const RUNNING: &str = "running";
const LIST: &str = "job-list.list";
/// Answers with one job.
const LIST_ID: &str = "job-list.list-id";

/// A job (flux-core, `src/modules/job-list/job_util.c`). Flux leaves out what does not apply to it, and what was not asked
/// for.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields have the names and values that flux-core gives them")]
pub struct Job {
    pub id: u64,
    pub userid: u32,
    pub urgency: u64,
    pub priority: Option<i64>,
    pub t_submit: f64,
    pub t_run: Option<f64>,
    pub t_cleanup: Option<f64>,
    pub t_inactive: Option<f64>,
    pub state: u32,
    pub name: String,
    pub ntasks: u64,
    pub nnodes: Option<u64>,
    pub ncores: Option<u64>,
    pub ranks: Option<String>,
    pub nodelist: Option<String>,
    pub waitstatus: Option<i32>,
    pub success: bool,
    pub exception_type: Option<String>,
    pub exception_note: Option<String>,
    pub result: Option<u32>,
    pub annotations: Value,
    pub dependencies: Vec<String>,
}

impl Job {
    /// The names of all attributes that are read.
    pub const ATTRIBUTES: &str = "userid urgency priority t_submit t_run t_cleanup t_inactive state name ntasks nnodes ncores \
         ranks nodelist waitstatus success exception_type exception_note result annotations dependencies";

    /// The state; a job that Flux has not validated yet counts as one that waits for its dependencies.
    pub fn state(&self) -> JobState {
        JobState::from_number(self.state).unwrap_or(JobState::Depend)
    }

    /// The status.
    pub fn status(&self) -> JobStatus {
        JobStatus::from_numbers(self.state, self.result)
    }

    /// The job has ended.
    pub fn is_inactive(&self) -> bool {
        self.state() == JobState::Inactive
    }

    /// The return code as Flux's Python has it (flux-core, `returncode` of `src/bindings/python/flux/job/info.py`).
    pub fn returncode(&self) -> Option<i32> {
        match (self.waitstatus, self.status()) {
            (Some(status), _) if status & 0x7f != 0 => Some(-(status & 0x7f)),
            (Some(status), _) => Some(status >> 8 & 0xff),
            (None, JobStatus::Canceled) => Some(-128),
            (None, JobStatus::Failed) => Some(1),
            (None, _) => None,
        }
    }
}

/// The request of a job that waits for resources, as far as its jobspec has it (flux-core, `parse_jobspec` of
/// `src/modules/job-list/job_data.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingJob {
    /// The number of nodes. None where the cores may be anywhere.
    pub nodes: Option<usize>,
    /// The number of cores on all nodes. None where the job takes whole nodes.
    pub cores: Option<usize>,
    /// The number of tasks.
    pub tasks: usize,
}

#[derive(Deserialize)]
struct List<Entry> {
    jobs: Vec<Entry>,
}

/// At most `limit` jobs within the `constraint` (RFC 31), with their ids and `attributes`, names with spaces between them.
pub async fn list<Entry: DeserializeOwned>(
    socket: &mut BrokerSocket,
    limit: usize,
    attributes: &str,
    constraint: &Value,
) -> Result<Vec<Entry>> {
    let attributes: Vec<_> = attributes.split_whitespace().collect();
    let asked = json!({ "max_entries": limit, "attrs": attributes, "constraint": constraint });
    let List { jobs } = socket.ask_lead(LIST, &asked).await?;
    Ok(jobs)
}

/// The jobs that wait for resources and are not held, in the order in which they get them; of very many the first ones.
pub async fn waiting(socket: &mut BrokerSocket) -> Result<Vec<WaitingJob>> {
    let attributes = "state priority ntasks nnodes ncores";
    let constraint = json!({ "states": [JobState::Sched.name()] });
    let jobs: Vec<Job> = list(socket, WAITING_LIMIT, attributes, &constraint).await?;
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let waits = |job: &Job| job.state() == JobState::Sched && job.priority != Some(0);
    let request = |job: Job| WaitingJob {
        nodes: job.nnodes.map(count),
        cores: job.ncores.map(count),
        tasks: count(job.ntasks),
    };
    Ok(jobs.into_iter().filter(waits).map(request).collect())
}

/// The ids of at most `limit` jobs that run on any of `ranks`. Flux before 0.64 does not know this constraint
/// (`src/modules/job-list/match.c`), and before 0.53 it takes states as numbers: there, all running jobs are read.
pub async fn running_on(
    socket: &mut BrokerSocket,
    ranks: &[u32],
    limit: usize,
) -> Result<Vec<u64>> {
    let states = json!({ "states": [RUNNING] });
    let constraint = json!({ "and": [states, { "ranks": [idset(ranks)] }] });
    match list::<Job>(socket, limit, "", &constraint).await {
        Ok(jobs) => return Ok(jobs.into_iter().map(|job| job.id).collect()),
        Err(error) if error.is(Errno::EPROTO) || error.is(Errno::EINVAL) => {}
        Err(error) => return Err(error),
    }
    let asked = json!({
        "max_entries": 0, "attrs": ["ranks"], "constraint": states,
        "states": JobState::RUNNING, "results": 0, "userid": u32::MAX,
    });
    let List::<Job> { jobs } = socket.ask_lead(LIST, &asked).await?;
    let is_there = |job: &Job| {
        let of_job = job.ranks.as_deref().and_then(ids_of).unwrap_or_default();
        of_job.iter().any(|rank| ranks.contains(rank))
    };
    Ok(jobs.into_iter().filter(is_there).map(|job| job.id).take(limit).collect())
}

/// The request for the job `id`. Flux answers when the job has been in `state`, if one is named.
fn list_id(id: u64, state: Option<JobState>) -> Value {
    let attributes: Vec<_> = Job::ATTRIBUTES.split_whitespace().collect();
    json!({ "id": id, "attrs": attributes, "state": state.map_or(0, JobState::number) })
}

/// The job `id`. With a `state`, the job has to be about to reach it.
pub async fn find(socket: &mut BrokerSocket, id: u64, state: Option<JobState>) -> Result<Job> {
    field(socket.ask_lead(LIST_ID, &list_id(id, state)).await?, "job")
}

/// Waits until the job `id` has ended, without a limit.
pub async fn wait_for_end(socket: &mut BrokerSocket, id: u64) -> Result<Job> {
    let asked = list_id(id, Some(JobState::Inactive));
    field(socket.ask(LIST_ID, LEAD, Some(&asked)).await?, "job")
}

/// How many jobs are in which state, and how many have ended with which result (flux-core,
/// `src/modules/job-list/stats.c`).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobCounts {
    job_states: BTreeMap<String, u64>,
    /// Jobs that have ended successfully.
    pub successful: u64,
    /// Jobs that have failed.
    pub failed: u64,
    /// Jobs that somebody has canceled.
    pub canceled: u64,
    /// Jobs that have reached their time limits.
    pub timeout: u64,
}

impl JobCounts {
    /// Jobs in any of the states whose numbers are added in `states`.
    pub fn in_states(&self, states: u32) -> u64 {
        let wanted = JobState::ALL.into_iter().filter(|state| state.number() & states != 0);
        wanted.filter_map(|state| self.job_states.get(state.name())).sum()
    }
}

/// Counts the jobs of the instance.
pub async fn count(socket: &mut BrokerSocket) -> Result<JobCounts> {
    socket.ask_lead("job-list.job-stats", &json!({})).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn return_codes_are_those_of_python() {
        let returncode = |waitstatus, result| {
            Job { state: 64, waitstatus, result, ..Job::default() }.returncode()
        };
        for (waitstatus, result, expected) in [
            (Some(0), Some(1), Some(0)),
            (Some(256), Some(2), Some(1)),
            (Some(9), Some(2), Some(-9)),
            (None, Some(2), Some(1)),
            (None, None, Some(1)),
            (None, Some(4), Some(-128)),
            (None, Some(1), None),
            (None, Some(8), None),
        ] {
            assert_eq!(returncode(waitstatus, result), expected, "{waitstatus:?} {result:?}");
        }
    }

    #[test]
    fn jobs_are_counted_in_several_states() {
        let counts = r#"{"job_states":{"sched":2,"priority":1,"cleanup":1,"run":3},"failed":4}"#;
        let counts: JobCounts = serde_json::from_str(counts).unwrap();
        let all = [JobState::PENDING, JobState::RUNNING, JobState::Inactive.number()];
        assert_eq!((all.map(|states| counts.in_states(states)), counts.failed), ([3, 4, 0], 4));
    }
}
