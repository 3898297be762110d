//! All jobs of the instance, on rank 0. Every method decides what is to be done and returns it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use super::job::{ClientId, Exception, Job, JobState};
use super::schedule::{Allocation, allocate};
use super::spec::{JobSpec, Scope};
use super::task::{Happened, Order, TaskOrder, WriteOrder};
use crate::output::Stream;
use crate::protocol::Reply;
use crate::resources::Cores;
use crate::text::jobid;

/// Something to be done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// What a rank is to do.
    Order(u32, Order),
    /// Tell a client.
    Tell(ClientId, Reply),
    /// Kill a job's tasks for good after the kill timeout.
    KillLater(u64),
}

/// The instance's jobs and resources.
#[derive(Debug, Default)]
pub(crate) struct Manager {
    /// All jobs.
    pub(crate) jobs: BTreeMap<u64, Job>,
    /// The cores of every rank.
    pub(crate) cores: Cores,
    /// Ranks that are online.
    pub(crate) online: BTreeSet<u32>,
    /// Ranks that get no jobs, and why.
    pub(crate) drained: BTreeMap<u32, String>,
    /// Ranks never scheduled.
    pub(crate) excluded: BTreeSet<u32>,
    /// Whether allocation is forbidden.
    pub(crate) stopped: bool,
    pub(super) idlers: Vec<(ClientId, Scope)>,
    pub(super) waiters: Vec<(ClientId, Scope)>,
    pub(super) sequence: u64,
}

impl Manager {
    /// The cores a scope has: all of them, or what its batch job was given.
    fn cores_of(&self, scope: Scope) -> Cores {
        let Some(id) = scope else { return self.cores.clone() };
        self.jobs.get(&id).map(|job| job.allocation.cores.clone()).unwrap_or_default()
    }

    /// Cores of a scope that are free on ranks that may be used now.
    pub(crate) fn free(&self, scope: Scope) -> Cores {
        let mut free = self.cores_of(scope);
        free.retain(|rank, _| {
            self.online.contains(rank)
                && !self.drained.contains_key(rank)
                && !self.excluded.contains(rank)
        });
        let running = |job: &&Job| job.state == JobState::Running && job.spec.scope == scope;
        for job in self.jobs.values().filter(running) {
            for (rank, cores) in &job.allocation.cores {
                if let Some(left) = free.get_mut(rank) {
                    left.retain(|core| !cores.contains(core));
                }
            }
        }
        free
    }

    /// Takes a job and gives it an id.
    pub(crate) fn submit(&mut self, spec: JobSpec) -> (u64, Vec<Effect>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.sequence += 1;
        let millis = u64::try_from(now.as_millis()).unwrap_or_default();
        let id = ((millis & 0xff_ffff_ffff) << 24) | (self.sequence & 0xff_ffff);
        self.jobs.insert(id, Job::new(id, spec, now.as_secs_f64()));
        (id, self.schedule())
    }

    /// Takes a job of a dump that had not started yet; false for one that is over.
    pub(crate) fn resume(&mut self, job: &serde_json::Value) -> bool {
        let spec = serde_json::from_value(job["spec"].clone()).ok();
        let found = spec.zip(job["id"].as_u64()).zip(job["submitted"].as_f64());
        let job = found.map(|((spec, id), submitted_at)| Job::new(id, spec, submitted_at));
        job.map(|job| self.jobs.insert(job.id, job)).is_some()
    }

    /// Starts what can be started, the oldest first; what must wait blocks the rest of its scope.
    pub(crate) fn schedule(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.stopped {
            return effects;
        }
        let pending = |job: &&Job| job.state == JobState::Pending;
        let pending: Vec<u64> = self.jobs.values().filter(pending).map(|job| job.id).collect();
        let mut blocked = BTreeSet::new();
        for id in pending {
            let Some(job) = self.jobs.get(&id) else { continue };
            let scope = job.spec.scope;
            if blocked.contains(&scope) {
                continue;
            }
            let mut all = self.cores_of(scope);
            all.retain(|rank, _| !self.excluded.contains(rank));
            if allocate(&job.spec, &all, &all).is_none() {
                let note = "unsatisfiable request".to_owned();
                effects.extend(self.raise(id, Exception { kind: "alloc", note }));
            } else if let Some(found) = allocate(&job.spec, &all, &self.free(scope)) {
                effects.extend(self.start(id, found));
            } else {
                blocked.insert(scope);
            }
        }
        effects
    }

    fn start(&mut self, id: u64, allocation: Allocation) -> Vec<Effect> {
        let mut effects = Vec::new();
        let Some(job) = self.jobs.get_mut(&id) else { return effects };
        job.allocation = allocation;
        job.state = JobState::Running;
        job.started = true;
        job.running = (0..).zip(job.allocation.tasks.iter().copied()).collect();
        let mut local: BTreeMap<u32, u32> = BTreeMap::new();
        for (task, rank) in (0_u32..).zip(&job.allocation.tasks) {
            let index = local.entry(*rank).or_default();
            effects.push(Effect::Order(*rank, Order::Start(Box::new(order(job, task, *index)))));
            *index += 1;
        }
        effects
    }

    /// Takes in what happened to a task.
    pub(crate) fn report(&mut self, id: u64, task: u32, happened: Happened) -> Vec<Effect> {
        match happened {
            Happened::Output(stream, text) => self.output(id, stream, text),
            Happened::Ended(code) => self.task_ended(id, task, code),
            Happened::NotStarted(code, reason) => {
                let note = format!("task {task}: start failed: {reason}");
                let text = format!("flux-shell[0]: FATAL: {note}\n");
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.exception.get_or_insert(Exception { kind: "exec", note });
                }
                let mut effects = self.output(id, Stream::Error, text);
                effects.extend(self.task_ended(id, task, code));
                effects
            }
        }
    }

    fn output(&mut self, id: u64, stream: Stream, text: String) -> Vec<Effect> {
        let Some(job) = self.jobs.get_mut(&id) else { return Vec::new() };
        if let Some(path) = job.file(stream) {
            let first = job.files.insert(path.clone());
            let order = WriteOrder { path, text, first };
            return vec![Effect::Order(job.allocation.first(), Order::Write(order))];
        }
        job.output.push((stream, text.clone()));
        let reply = Reply::Output(stream, text);
        job.watchers
            .iter()
            .filter(|(_, output)| *output)
            .map(|(client, _)| Effect::Tell(*client, reply.clone()))
            .collect()
    }

    fn task_ended(&mut self, id: u64, task: u32, code: i32) -> Vec<Effect> {
        let Some(job) = self.jobs.get_mut(&id) else { return Vec::new() };
        if job.running.remove(&task).is_none() {
            return Vec::new();
        }
        job.code = job.code.max(code);
        if job.running.is_empty() { self.finish(id) } else { Vec::new() }
    }

    fn finish(&mut self, id: u64) -> Vec<Effect> {
        let mut effects = Vec::new();
        let Some(job) = self.jobs.get_mut(&id) else { return effects };
        if job.state == JobState::Inactive {
            return effects;
        }
        let files: Vec<String> = [Stream::Output, Stream::Error]
            .into_iter()
            .filter_map(|stream| job.file(stream))
            .collect();
        for path in files {
            // Real Flux creates output files whether or not anything is written to them.
            if job.state == JobState::Running && job.files.insert(path.clone()) {
                let order = WriteOrder { path, text: String::new(), first: true };
                effects.push(Effect::Order(job.allocation.first(), Order::Write(order)));
            }
        }
        job.state = JobState::Inactive;
        for (client, _) in std::mem::take(&mut job.watchers) {
            effects.push(Effect::Tell(client, job.end()));
        }
        let inner: Vec<u64> = self.active(Some(id));
        for job in inner {
            let note = "enclosing instance ended".to_owned();
            effects.extend(self.raise(job, Exception { kind: "cancel", note }));
        }
        effects.extend(self.settle());
        effects.extend(self.schedule());
        effects
    }

    /// Ids of jobs that are not over, in a scope.
    pub(crate) fn active(&self, scope: Scope) -> Vec<u64> {
        let active = |job: &&Job| job.state != JobState::Inactive && job.spec.scope == scope;
        self.jobs.values().filter(active).map(|job| job.id).collect()
    }

    /// Ids of jobs whose tasks run.
    pub(crate) fn running(&self) -> Vec<u64> {
        let running = |job: &&Job| job.state == JobState::Running;
        self.jobs.values().filter(running).map(|job| job.id).collect()
    }

    /// Raises a fatal exception on a job.
    pub(crate) fn raise(&mut self, id: u64, exception: Exception) -> Vec<Effect> {
        let Some(job) = self.jobs.get_mut(&id) else { return Vec::new() };
        match job.state {
            JobState::Inactive => Vec::new(),
            JobState::Pending => {
                job.exception = Some(exception);
                self.finish(id)
            }
            JobState::Running => {
                job.exception.get_or_insert(exception);
                let mut effects = signal(job, nix::libc::SIGTERM);
                effects.push(Effect::KillLater(id));
                effects
            }
        }
    }

    /// Signals what is left of a job.
    pub(crate) fn kill(&self, id: u64, number: i32) -> Vec<Effect> {
        self.jobs.get(&id).map_or_else(Vec::new, |job| signal(job, number))
    }

    /// A rank is gone: its tasks are lost, and so are the jobs they belong to.
    pub(crate) fn lost(&mut self, rank: u32) -> Vec<Effect> {
        let mut effects = Vec::new();
        for id in self.running() {
            let Some(job) = self.jobs.get(&id) else { continue };
            if !job.allocation.cores.contains_key(&rank) {
                continue;
            }
            let lost = job.running.iter().filter(|(_, of_task)| **of_task == rank);
            let lost: Vec<u32> = lost.map(|(task, _)| *task).collect();
            let note = format!("lost contact with rank {rank}");
            effects.extend(self.raise(id, Exception { kind: "node-failure", note }));
            for task in lost {
                effects.extend(self.task_ended(id, task, 128 + nix::libc::SIGKILL));
            }
        }
        effects
    }
}

fn signal(job: &Job, number: i32) -> Vec<Effect> {
    if job.state != JobState::Running {
        return Vec::new();
    }
    let command = || Order::Signal(job.id, number);
    job.allocation.cores.keys().map(|rank| Effect::Order(*rank, command())).collect()
}

fn order(job: &Job, task: u32, index: u32) -> TaskOrder {
    let mut spec = job.spec.clone();
    let id = jobid::encode(job.id);
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
            ("FLUX_TASK_LOCAL_ID", index.to_string()),
        ];
        spec.environment.extend(facts.map(|(name, value)| (name.to_owned(), value)));
    }
    TaskOrder { job: job.id, task, spec }
}
