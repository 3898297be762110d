//! All jobs of the instance, on rank 0. Every method decides what is to be done and returns it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use super::job::{ClientId, Exception, Job, JobState};
use super::schedule::{Allocation, Free, allocate, whole};
use super::spec::JobSpec;
use super::task::{News, Report, TaskOrder, WriteOrder};
use crate::output::Stream;
use crate::protocol::Reply;
use crate::resources::{Node, Nodes};
use crate::text::jobid;

/// Something to be done.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Start a task on a rank.
    Start(u32, TaskOrder),
    /// Signal a job's tasks on a rank.
    Signal(u32, u64, i32),
    /// Append to a file on a rank.
    Write(u32, WriteOrder),
    /// Tell a client.
    Tell(ClientId, Reply),
    /// Kill a job's tasks for good after the kill timeout.
    KillLater(u64),
    /// Raise a timeout after so many seconds.
    LimitLater(u64, f64),
}

/// A client waiting for no job to run: who, in which scope, whether pending jobs count.
type Idler = (ClientId, Option<u64>, bool);

/// The instance's jobs and resources.
#[derive(Debug, Default)]
pub(crate) struct Manager {
    /// All jobs.
    pub(crate) jobs: BTreeMap<u64, Job>,
    /// Configured or discovered resources; none until known.
    pub(crate) nodes: Option<Nodes>,
    /// Ranks that are online.
    pub(crate) online: BTreeSet<u32>,
    /// Drained ranks and why.
    pub(crate) drained: BTreeMap<u32, String>,
    /// Ranks never scheduled.
    pub(crate) excluded: BTreeSet<u32>,
    /// Whether submission is forbidden.
    pub(crate) disabled: bool,
    /// Whether allocation is forbidden.
    pub(crate) stopped: bool,
    pub(super) idlers: Vec<Idler>,
    pub(super) waiters: Vec<(ClientId, Option<u64>, Option<u64>)>,
    pub(super) sequence: u64,
}

impl Manager {
    /// The nodes a scope has: all of them, or what its batch job was given.
    fn nodes_of(&self, scope: Option<u64>) -> Option<Nodes> {
        let nodes = self.nodes.as_ref()?;
        let Some(id) = scope else { return Some(nodes.clone()) };
        let given = &self.jobs.get(&id)?.allocation.cores;
        let node = |(rank, cores): (&u32, &BTreeSet<u32>)| {
            let node = nodes.get(rank)?;
            Some((*rank, Node { cores: cores.clone(), ..node.clone() }))
        };
        Some(given.iter().filter_map(node).collect())
    }

    /// Cores of a scope that are free on ranks that may be used now.
    pub(crate) fn free(&self, scope: Option<u64>) -> Free {
        let Some(nodes) = self.nodes_of(scope) else { return Free::new() };
        let mut free = whole(&nodes);
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

    /// Takes a job. The id, or why it is refused.
    pub(crate) fn submit(&mut self, spec: JobSpec) -> Result<(u64, Vec<Effect>), String> {
        if self.disabled {
            return Err("job submission is disabled".to_owned());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.sequence += 1;
        let millis = u64::try_from(now.as_millis()).unwrap_or_default();
        let id = ((millis & 0xff_ffff_ffff) << 24) | (self.sequence & 0xff_ffff);
        let mut job = Job::new(id, spec, now.as_secs_f64());
        job.event("submit");
        job.event("depend");
        job.event("priority");
        self.jobs.insert(id, job);
        let effects = self.schedule();
        Ok((id, effects))
    }

    /// Starts what can be started, oldest and most urgent first; what must wait blocks the rest
    /// of its scope.
    pub(crate) fn schedule(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.stopped || self.nodes.is_none() {
            return effects;
        }
        let mut pending: Vec<(u32, u64)> = self
            .jobs
            .values()
            .filter(|job| job.state == JobState::Pending && job.spec.urgency > 0)
            .map(|job| (31 - job.spec.urgency.min(31), job.id))
            .collect();
        pending.sort_unstable();
        let mut blocked = BTreeSet::new();
        for (_, id) in pending {
            let Some(job) = self.jobs.get(&id) else { continue };
            let scope = job.spec.scope;
            let Some(nodes) = self.nodes_of(scope).filter(|_| !blocked.contains(&scope)) else {
                continue;
            };
            let mut all = whole(&nodes);
            all.retain(|rank, _| !self.excluded.contains(rank));
            if allocate(&job.spec, &nodes, &all).is_none() {
                let note = "unsatisfiable request".to_owned();
                effects.extend(self.raise(id, Exception { kind: "alloc", note }));
            } else if let Some(found) = allocate(&job.spec, &nodes, &self.free(scope)) {
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
        job.started = Some(std::time::Instant::now());
        job.running = (0..job.spec.processes()).collect();
        for text in ["alloc", "start"] {
            effects.extend(tell_event(job, text));
        }
        let mut local: BTreeMap<u32, u32> = BTreeMap::new();
        for (task, rank) in (0_u32..).zip(&job.allocation.tasks) {
            let index = local.entry(*rank).or_default();
            effects.push(Effect::Start(*rank, order(job, task, *index)));
            *index += 1;
        }
        if let Some(limit) = job.spec.limit.filter(|limit| *limit > 0.0) {
            effects.push(Effect::LimitLater(id, limit));
        }
        effects
    }

    /// Takes in what happened to a task.
    pub(crate) fn report(&mut self, report: Report) -> Vec<Effect> {
        match report.news {
            News::Output(stream, text) => self.output(report.job, report.task, stream, text),
            News::Ended(code) => self.task_ended(report.job, report.task, code),
            News::NotStarted(code, reason) => {
                let task = self.task_name(report.job, report.task);
                let text = format!("flux-shell[0]: FATAL: {task}: start failed: {reason}\n");
                let mut effects = self.output(report.job, report.task, Stream::Error, text);
                if let Some(job) = self.jobs.get_mut(&report.job) {
                    let note = format!("{task}: start failed: {reason}");
                    job.exception.get_or_insert(Exception { kind: "exec", note });
                }
                effects.extend(self.task_ended(report.job, report.task, code));
                effects
            }
        }
    }

    /// `task 0 (host a0)`.
    fn task_name(&self, id: u64, task: u32) -> String {
        let rank = usize::try_from(task)
            .ok()
            .and_then(|index| self.jobs.get(&id).and_then(|job| job.allocation.tasks.get(index)));
        let nodes = self.nodes.as_ref();
        let host = rank.and_then(|rank| nodes?.get(rank)).map_or("?", |node| node.host.as_str());
        format!("task {task} (host {host})")
    }

    fn output(&mut self, id: u64, task: u32, stream: Stream, text: String) -> Vec<Effect> {
        let Some(job) = self.jobs.get_mut(&id) else { return Vec::new() };
        let text = if job.spec.label { format!("{task}: {text}") } else { text };
        if let Some(path) = job.file(stream) {
            let first = job.files.insert(path.clone());
            return vec![Effect::Write(job.allocation.first(), WriteOrder { path, text, first })];
        }
        job.output.push((stream, task, text.clone()));
        let reply = Reply::Output { stream, task, text };
        job.watchers
            .iter()
            .filter(|(_, output)| *output)
            .map(|(client, _)| Effect::Tell(*client, reply.clone()))
            .collect()
    }

    fn task_ended(&mut self, id: u64, task: u32, code: i32) -> Vec<Effect> {
        let Some(job) = self.jobs.get_mut(&id) else { return Vec::new() };
        if !job.running.remove(&task) {
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
                effects.push(Effect::Write(job.allocation.first(), order));
            }
        }
        if job.state == JobState::Running {
            effects.extend(tell_event(job, &format!("finish status={}", job.code)));
        }
        job.state = JobState::Inactive;
        job.ran = job.started.map(|started| started.elapsed().as_secs_f64());
        effects.extend(tell_event(job, "clean"));
        for (client, _) in std::mem::take(&mut job.watchers) {
            effects.push(Effect::Tell(client, super::queries::result(job)));
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
    pub(crate) fn active(&self, scope: Option<u64>) -> Vec<u64> {
        let active = |job: &&Job| job.state != JobState::Inactive && job.spec.scope == scope;
        self.jobs.values().filter(active).map(|job| job.id).collect()
    }

    /// Raises a fatal exception on a job.
    pub(crate) fn raise(&mut self, id: u64, exception: Exception) -> Vec<Effect> {
        let Some(job) = self.jobs.get_mut(&id) else { return Vec::new() };
        let text = format!("exception type={} severity=0 {}", exception.kind, exception.note);
        match job.state {
            JobState::Inactive => Vec::new(),
            JobState::Pending => {
                job.exception = Some(exception);
                let mut effects = tell_event(job, &text);
                effects.extend(self.finish(id));
                effects
            }
            JobState::Running => {
                job.exception.get_or_insert(exception);
                let mut effects = tell_event(job, &text);
                effects.extend(signal(job, nix::libc::SIGTERM));
                effects.push(Effect::KillLater(id));
                effects
            }
        }
    }

    /// Kills what is left of a job.
    pub(crate) fn kill(&self, id: u64) -> Vec<Effect> {
        self.jobs.get(&id).map_or_else(Vec::new, |job| signal(job, nix::libc::SIGKILL))
    }

    /// Signals every running job.
    pub(crate) fn signal_all(&self, number: i32) -> Vec<Effect> {
        self.jobs.values().flat_map(|job| signal(job, number)).collect()
    }

    /// A rank is gone: its tasks are lost, and so are the jobs they belong to.
    pub(crate) fn lost(&mut self, rank: u32) -> Vec<Effect> {
        let hit: Vec<u64> = self
            .jobs
            .values()
            .filter(|job| {
                job.state == JobState::Running && job.allocation.cores.contains_key(&rank)
            })
            .map(|job| job.id)
            .collect();
        let mut effects = Vec::new();
        for id in hit {
            let note = format!("lost contact with rank {rank}");
            effects.extend(self.raise(id, Exception { kind: "node-failure", note }));
            let Some(job) = self.jobs.get(&id) else { continue };
            let tasks: Vec<u32> = job
                .running
                .iter()
                .copied()
                .filter(|task| {
                    let at = usize::try_from(*task).unwrap_or_default();
                    job.allocation.tasks.get(at) == Some(&rank)
                })
                .collect();
            for task in tasks {
                effects.extend(self.task_ended(id, task, 128 + nix::libc::SIGKILL));
            }
        }
        effects
    }
}

fn tell_event(job: &mut Job, text: &str) -> Vec<Effect> {
    let (at, text) = job.event(text);
    let reply = Reply::Event { at, text };
    job.watchers.iter().map(|(client, _)| Effect::Tell(*client, reply.clone())).collect()
}

fn signal(job: &Job, number: i32) -> Vec<Effect> {
    if job.state != JobState::Running {
        return Vec::new();
    }
    job.allocation.cores.keys().map(|rank| Effect::Signal(*rank, job.id, number)).collect()
}

fn order(job: &Job, task: u32, index: u32) -> TaskOrder {
    let mut environment = job.spec.environment.clone();
    let id = jobid::encode(job.id);
    let facts = [
        ("FLUX_JOB_ID", id.clone()),
        ("FLUX_JOB_ID_PATH", format!("/{id}")),
        ("FLUX_JOB_SIZE", job.spec.processes().to_string()),
        ("FLUX_JOB_NNODES", job.allocation.cores.len().to_string()),
        ("FLUX_TASK_RANK", task.to_string()),
        ("FLUX_TASK_LOCAL_ID", index.to_string()),
        ("FLUX_KVS_NAMESPACE", format!("job-{}", job.id)),
    ];
    if job.spec.script.is_some() {
        // A script runs as the initial program of an instance of its own: no task variables.
        environment
            .retain(|name, _| !name.starts_with("FLUX_JOB_") && !name.starts_with("FLUX_TASK_"));
        environment.insert("FLUX_ENCLOSING_ID".to_owned(), id);
    } else {
        environment.extend(facts.map(|(name, value)| (name.to_owned(), value)));
    }
    let expand = |word: &String| job.expand(word, task);
    TaskOrder {
        job: job.id,
        task,
        command: job.spec.command.iter().map(expand).collect(),
        script: job.spec.script.clone(),
        directory: job.spec.directory.clone(),
        environment,
        input: job.spec.input.clone(),
    }
}
