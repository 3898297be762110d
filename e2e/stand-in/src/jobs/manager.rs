//! All jobs of the instance, on rank 0.

use super::job::{Job, JobState};
use super::schedule::{Allocation, allocate};
use super::task::{Happened, Order, TaskOrder, exit_code};
use crate::protocol::{Client, JobSpec, Reply, Scope, Wait};
use crate::resources::Cores;
use crate::text;
use flux_protocol::job_id::f58;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{SystemTime, UNIX_EPOCH};

/// `EEXIST` and `EINVAL` of Linux.
const EXISTS: u8 = 17;
const INVALID: u8 = 22;
/// Exit code of `flux job wait` for a job that cannot be waited for.
const NOT_WAITABLE: u8 = 2;

/// A client that waits, and how many lines of a job's output it has.
struct Waiting {
    client: Client,
    wait: Wait,
    printed: usize,
}

#[derive(Default)]
pub(crate) struct Manager {
    pub(crate) jobs: BTreeMap<u64, Job>,
    pub(crate) cores: Cores,
    /// Ranks never scheduled.
    pub(crate) excluded: BTreeSet<u32>,
    /// Ranks that are online, and how each gets its orders.
    pub(crate) online: BTreeMap<u32, Box<dyn Fn(Order)>>,
    /// Ranks that get no jobs, and why.
    pub(crate) drained: BTreeMap<u32, String>,
    pub(crate) stopped: bool,
    waiting: Vec<Waiting>,
    sequence: u64,
}

impl Manager {
    fn order(&self, rank: u32, order: Order) {
        if let Some(send) = self.online.get(&rank) {
            send(order);
        }
    }

    /// The cores a scope has: all of them, or what its batch job was given.
    fn cores_of(&self, scope: Scope) -> Cores {
        let Some(id) = scope else { return self.cores.clone() };
        self.jobs.get(&id).map(|job| job.allocation.cores.clone()).unwrap_or_default()
    }

    /// Cores of a scope that are free on ranks that may be used now.
    fn free(&self, scope: Scope) -> Cores {
        let mut free = self.cores_of(scope);
        free.retain(|rank, _| {
            self.online.contains_key(rank)
                && !self.drained.contains_key(rank)
                && !self.excluded.contains(rank)
        });
        for id in self.in_state(JobState::Running, scope) {
            for (rank, cores) in &self.jobs[&id].allocation.cores {
                if let Some(left) = free.get_mut(rank) {
                    *left = left.saturating_sub(*cores);
                }
            }
        }
        free
    }

    /// The jobs of a scope, the oldest first.
    pub(crate) fn of(&self, scope: Scope) -> impl DoubleEndedIterator<Item = &Job> {
        self.jobs.values().filter(move |job| job.spec.scope == scope)
    }

    fn ids(&self, wanted: impl Fn(&Job) -> bool) -> Vec<u64> {
        self.jobs.values().filter(|job| wanted(job)).map(|job| job.id).collect()
    }

    fn in_state(&self, state: JobState, scope: Scope) -> Vec<u64> {
        self.of(scope).filter(|job| job.state == state).map(|job| job.id).collect()
    }

    pub(crate) fn submit(&mut self, spec: JobSpec) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.sequence += 1;
        let millis = u64::try_from(now.as_millis()).unwrap_or_default();
        let id = ((millis & 0xff_ffff_ffff) << 24) | (self.sequence & 0xff_ffff);
        self.jobs.insert(id, Job { id, spec, ..Job::default() });
        id
    }

    /// Takes the jobs of a dump: those that had not started yet are still to run.
    pub(crate) fn restore(&mut self, jobs: Vec<Job>) {
        for mut job in jobs {
            if job.state == JobState::Running {
                let note = "lost contact with its instance".to_owned();
                job.exception = Some(("node-failure".to_owned(), note));
            }
            if job.state != JobState::Pending {
                job.state = JobState::Inactive;
                job.spec.waitable = false;
            }
            self.jobs.insert(job.id, job);
        }
    }

    /// Starts what can be started, the oldest first; what must wait blocks the rest of its scope.
    fn schedule(&mut self) {
        if self.stopped {
            return;
        }
        let mut blocked = BTreeSet::new();
        for id in self.ids(|job| job.state == JobState::Pending) {
            let job = &self.jobs[&id];
            let scope = job.spec.scope;
            if job.state != JobState::Pending || blocked.contains(&scope) {
                continue;
            }
            let mut all = self.cores_of(scope);
            all.retain(|rank, _| !self.excluded.contains(rank));
            if allocate(&job.spec, &all, &all).is_none() {
                self.raise(id, "alloc", "unsatisfiable request");
            } else if let Some(found) = allocate(&job.spec, &all, &self.free(scope)) {
                let writes = job.spec.output.is_some() || job.spec.error.is_some();
                if writes && found.tasks.first() != found.tasks.last() {
                    self.raise(id, "exec", "not simulated: one file for several nodes' output");
                } else {
                    self.start(id, found);
                }
            } else {
                blocked.insert(scope);
            }
        }
    }

    fn start(&mut self, id: u64, allocation: Allocation) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.state = JobState::Running;
        job.running = (0..).zip(allocation.tasks.iter().copied()).collect();
        job.allocation = allocation;
        let orders: Vec<(u32, TaskOrder)> =
            job.running.iter().map(|(task, rank)| (*rank, task_order(job, *task))).collect();
        for (rank, order) in orders {
            self.order(rank, Order::Start(Box::new(order)));
        }
    }

    pub(crate) fn report(&mut self, id: u64, task: u32, happened: Happened) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let code = match happened {
            Happened::Output(stream, text) => return job.output.push((stream, text)),
            Happened::Ended(status) => {
                job.first_end = job.first_end.or(Some((task, status)));
                exit_code(ExitStatus::from_raw(status))
            }
            Happened::NotStarted(code, note) => {
                job.exception.get_or_insert_with(|| ("exec".to_owned(), note));
                code
            }
        };
        if job.running.remove(&task).is_some() {
            job.code = job.code.max(code);
            if job.running.is_empty() {
                self.finish(id);
            }
        }
    }

    fn finish(&mut self, id: u64) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.state = JobState::Inactive;
        for inner in self.ids(|job| job.spec.scope == Some(id)) {
            self.raise(inner, "cancel", "enclosing instance ended");
        }
    }

    pub(crate) fn running(&self) -> Vec<u64> {
        self.ids(|job| job.state == JobState::Running)
    }

    pub(crate) fn raise(&mut self, id: u64, kind: &str, note: &str) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.state == JobState::Inactive {
            return;
        }
        job.exception.get_or_insert_with(|| (kind.to_owned(), note.to_owned()));
        if job.state == JobState::Pending {
            self.finish(id);
        } else {
            self.order_all(id, Order::Cancel);
        }
    }

    pub(crate) fn kill(&self, id: u64, signal: i32) -> Reply {
        self.order_all(id, |id| Order::Signal(id, signal));
        Reply::Done(Value::Null)
    }

    fn order_all(&self, id: u64, order: impl Fn(u64) -> Order) {
        let job = self.jobs.get(&id).filter(|job| job.state == JobState::Running);
        for rank in job.into_iter().flat_map(|job| job.allocation.cores.keys()) {
            self.order(*rank, order(id));
        }
    }

    /// A rank is gone: its tasks are lost, and so are the jobs they belong to.
    pub(crate) fn lost(&mut self, rank: u32) {
        for id in self.running() {
            let Some(job) = self.jobs.get(&id) else { continue };
            if !job.allocation.cores.contains_key(&rank) {
                continue;
            }
            let lost = job.running.iter().filter(|(_, of_task)| **of_task == rank);
            let lost: Vec<u32> = lost.map(|(task, _)| *task).collect();
            self.raise(id, "node-failure", &format!("lost contact with rank {rank}"));
            for task in lost {
                self.report(id, task, Happened::Ended(nix::libc::SIGKILL));
            }
        }
    }

    pub(crate) fn wait(&mut self, wait: Wait, client: Client) {
        self.waiting.push(Waiting { client, wait, printed: 0 });
    }

    /// Starts jobs, and answers the waiting clients whose wait is over.
    pub(crate) fn settle(&mut self) {
        self.schedule();
        for mut waiting in std::mem::take(&mut self.waiting) {
            match self.answer(&mut waiting) {
                Some(reply) => (waiting.client)(reply),
                None => self.waiting.push(waiting),
            }
        }
    }

    fn answer(&mut self, waiting: &mut Waiting) -> Option<Reply> {
        match waiting.wait {
            Wait::End { id, output } => {
                let Some(job) = self.jobs.get(&id) else {
                    return Some(Reply::failed("No such file or directory"));
                };
                for (stream, text) in job.output.iter().skip(waiting.printed).filter(|_| output) {
                    (waiting.client)(Reply::Output(*stream, text.clone()));
                }
                waiting.printed = job.output.len();
                (job.state == JobState::Inactive).then(|| job.end())
            }
            Wait::Result(scope) => {
                let waitable = |job: &&mut Job| job.spec.waitable && job.spec.scope == scope;
                let mut jobs = self.jobs.values_mut().filter(waitable).peekable();
                if jobs.peek().is_none() {
                    let reason = "there are no more waitable jobs".to_owned();
                    return Some(Reply::Failed(reason, NOT_WAITABLE));
                }
                let job = jobs.find(|job| job.state == JobState::Inactive)?;
                job.spec.waitable = false;
                Some(job.end())
            }
            Wait::Idle(scope) => {
                let pending = self.in_state(JobState::Pending, scope).len();
                let idle = self.in_state(JobState::Running, scope).is_empty();
                idle.then(|| Reply::Done(json!(pending)))
            }
        }
    }

    /// A rank gets no more jobs, for a `reason`; or jobs again, without one. One that is as it is to be fails
    /// the request, as without `--update`.
    pub(crate) fn drain(&mut self, rank: u32, reason: Option<String>) -> Reply {
        if !self.cores.contains_key(&rank) {
            return Reply::Failed("idset is out of range".to_owned(), INVALID);
        }
        if self.drained.contains_key(&rank) == reason.is_some() {
            let already = if reason.is_some() { "already" } else { "not" };
            return Reply::Failed(format!("rank {rank} {already} drained"), EXISTS);
        }
        self.drained.remove(&rank);
        self.drained.extend(reason.map(|reason| (rank, reason)));
        Reply::Done(Value::Null)
    }

    /// The drained ranks and why, each by itself.
    pub(crate) fn drained_ranks(&self) -> Value {
        let drained = self.drained.iter();
        let drain: BTreeMap<String, Value> = drained
            .map(|(rank, why)| (rank.to_string(), json!({ "timestamp": 0.0, "reason": why })))
            .collect();
        json!({ "drain": drain })
    }

    pub(crate) fn running_on(&self, rank: u32, limit: usize) -> Value {
        let ids = self.running().into_iter();
        let here = ids.filter(|id| self.jobs[id].allocation.cores.contains_key(&rank)).take(limit);
        json!({ "jobs": here.map(|id| json!({ "id": id })).collect::<Vec<_>>() })
    }

    /// As `resource.sched-status` answers (flux-core, `modules/resource/status.c`): what is drained is down.
    pub(crate) fn allocated(&self) -> Value {
        let usable =
            |rank: &u32| self.online.contains_key(rank) && !self.drained.contains_key(rank);
        let down = self.cores.iter().filter(|(rank, _)| !usable(rank));
        let jobs = self.in_state(JobState::Running, None);
        let given = jobs.iter().flat_map(|id| &self.jobs[id].allocation.cores);
        json!({ "all": set(self.cores.iter()), "down": set(down), "allocated": set(given) })
    }

    /// How many cores are free, and on how many ranks.
    pub(crate) fn resources(&self) -> Value {
        let free = self.free(None);
        let nodes = free.values().filter(|cores| **cores > 0).count();
        json!({ "nnodes": nodes, "ncores": free.values().sum::<usize>() })
    }
}

/// A resource set (RFC 20) without the names of hosts.
fn set<'cores>(cores: impl Iterator<Item = (&'cores u32, &'cores usize)>) -> Value {
    let hosts = cores.map(|(rank, cores)| {
        json!({ "rank": rank.to_string(), "children": { "core": text::ids(*cores) } })
    });
    json!({ "version": 1, "execution": { "R_lite": hosts.collect::<Vec<_>>() } })
}

fn task_order(job: &Job, task: u32) -> TaskOrder {
    let mut spec = job.spec.clone();
    let id = f58(job.id);
    for file in [&mut spec.output, &mut spec.error].into_iter().flatten() {
        *file = file.replace("{{id}}", &id);
    }
    if spec.script.is_some() {
        // A script runs as the initial program of an instance of its own: no task variables.
        spec.environment
            .retain(|name, _| !name.starts_with("FLUX_JOB_") && !name.starts_with("FLUX_TASK_"));
        spec.environment.insert("FLUX_ENCLOSING_ID".to_owned(), id);
    } else {
        let facts = [
            ("FLUX_JOB_ID", id),
            ("FLUX_JOB_SIZE", spec.tasks.to_string()),
            ("FLUX_JOB_NNODES", job.allocation.cores.len().to_string()),
            ("FLUX_TASK_RANK", task.to_string()),
        ];
        spec.environment.extend(facts.map(|(name, value)| (name.to_owned(), value)));
    }
    TaskOrder { job: job.id, task, spec }
}
