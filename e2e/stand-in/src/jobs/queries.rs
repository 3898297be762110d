//! Answers about jobs, and clients that wait for one.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::job::{ClientId, Exception, Job, JobState};
use super::manager::{Effect, Manager};
use super::spec::Scope;
use crate::protocol::Reply;
use crate::text::idset;

/// `EEXIST` and `EINVAL` of Linux.
const EXISTS: u8 = 17;
const INVALID: u8 = 22;
/// Exit code of `flux job wait` for a job that cannot be waited for.
const NOT_WAITABLE: u8 = 2;

impl Manager {
    /// A client wants to see a job.
    pub(crate) fn watch(&mut self, client: ClientId, id: u64, output: bool) -> Vec<Effect> {
        let Some(job) = self.jobs.get_mut(&id) else {
            return vec![Effect::Tell(client, Reply::failed("No such file or directory"))];
        };
        let mut replies = Vec::new();
        if output {
            let said = |(stream, text): &(_, String)| Reply::Output(*stream, text.clone());
            replies.extend(job.output.iter().map(said));
        }
        if job.state == JobState::Inactive {
            replies.push(job.end());
        } else {
            job.watchers.push((client, output));
        }
        replies.into_iter().map(|reply| Effect::Tell(client, reply)).collect()
    }

    /// A client waits for a result, which it takes.
    pub(crate) fn wait(&mut self, client: ClientId, scope: Scope) -> Vec<Effect> {
        if !self.jobs.values().any(|job| is_waitable(job, scope)) {
            let reason = "there are no more waitable jobs".to_owned();
            return vec![Effect::Tell(client, Reply::Failed(reason, NOT_WAITABLE))];
        }
        self.waiters.push((client, scope));
        self.settle()
    }

    /// A client waits for an idle queue.
    pub(crate) fn idle(&mut self, client: ClientId, scope: Scope) -> Vec<Effect> {
        self.idlers.push((client, scope));
        self.settle()
    }

    /// Answers the waiting clients whose wait is over.
    pub(crate) fn settle(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (client, scope) in std::mem::take(&mut self.waiters) {
            let over = |job: &&mut Job| job.state == JobState::Inactive && is_waitable(job, scope);
            let Some(job) = self.jobs.values_mut().find(over) else {
                self.waiters.push((client, scope));
                continue;
            };
            job.taken = true;
            let value = json!({ "id": job.id, "text": wait_text(job) });
            effects.push(Effect::Tell(client, Reply::Done(value)));
        }
        for (client, scope) in std::mem::take(&mut self.idlers) {
            let count = |state| {
                let wanted = |job: &&Job| job.state == state && job.spec.scope == scope;
                self.jobs.values().filter(wanted).count()
            };
            if count(JobState::Running) > 0 {
                self.idlers.push((client, scope));
            } else {
                effects.push(Effect::Tell(client, Reply::Done(json!(count(JobState::Pending)))));
            }
        }
        effects
    }

    /// Forgets a client that has gone.
    pub(crate) fn forget(&mut self, client: ClientId) {
        self.idlers.retain(|(waiting, _)| *waiting != client);
        self.waiters.retain(|(waiting, _)| *waiting != client);
        for job in self.jobs.values_mut() {
            job.watchers.retain(|(watching, _)| *watching != client);
        }
    }

    /// The eventlogs of a job (RFC 21), by the names that `flux job eventlog` knows them by; none of
    /// a job that is unknown, none of its execution before it was started.
    pub(crate) fn eventlog(&self, id: u64) -> Value {
        let Some(job) = self.jobs.get(&id) else { return json!({}) };
        let event = |name: &str| json!({ "timestamp": job.submitted_at, "name": name });
        let mut events: Vec<Value> = ["submit", "depend", "priority"].map(event).into();
        if job.started {
            events.extend(["alloc", "start"].map(event));
        }
        if let Some(Exception { kind, note }) = &job.exception {
            let mut raised = event("exception");
            raised["context"] =
                json!({ "type": kind, "severity": 0, "note": note, "userid": job.spec.user });
            events.push(raised);
        }
        if job.state == JobState::Inactive {
            events.push(event("clean"));
        }
        let execution =
            job.started.then(|| ["init", "starting", "shell.init", "shell.start"].map(event));
        json!({ "eventlog": events, "exec": execution })
    }

    /// Ranks get no more jobs. One that is drained already fails the request, as without `--update`.
    pub(crate) fn drain(&mut self, ranks: &BTreeSet<u32>, reason: &str) -> Reply {
        if ranks.iter().any(|rank| !self.cores.contains_key(rank)) {
            return Reply::Failed("idset is out of range".to_owned(), INVALID);
        }
        let old: Vec<u32> =
            ranks.iter().copied().filter(|rank| self.drained.contains_key(rank)).collect();
        if !old.is_empty() {
            let text = format!("rank {} already drained", idset::encode(old));
            return Reply::Failed(text, EXISTS);
        }
        self.drained.extend(ranks.iter().map(|rank| (*rank, reason.to_owned())));
        Reply::Done(Value::Null)
    }

    /// Ranks get jobs again, if all of them were drained.
    pub(crate) fn undrain(&mut self, ranks: &BTreeSet<u32>) -> Reply {
        let other: Vec<u32> =
            ranks.iter().copied().filter(|rank| !self.drained.contains_key(rank)).collect();
        if !other.is_empty() {
            return Reply::Failed(format!("rank {} not drained", idset::encode(other)), EXISTS);
        }
        self.drained.retain(|rank, _| !ranks.contains(rank));
        Reply::Done(Value::Null)
    }

    /// The drained ranks and why, each by itself.
    pub(crate) fn drained_ranks(&self) -> Value {
        let drain = self.drained.iter().map(|(rank, reason)| {
            (rank.to_string(), json!({ "timestamp": 0.0, "reason": reason }))
        });
        json!({ "drain": drain.collect::<serde_json::Map<_, _>>() })
    }

    /// The ids of at most `limit` jobs that run on one of `ranks`.
    pub(crate) fn running_on(&self, ranks: &BTreeSet<u32>, limit: usize) -> Value {
        let here = |job: &&Job| {
            job.state == JobState::Running
                && job.allocation.cores.keys().any(|rank| ranks.contains(rank))
        };
        let jobs = self.jobs.values().filter(here).take(limit);
        json!({ "jobs": jobs.map(|job| json!({ "id": job.id })).collect::<Vec<_>>() })
    }

    /// How many cores are free on each rank that may be used now and has any.
    pub(crate) fn resources(&self) -> Value {
        self.free(None).values().filter(|cores| !cores.is_empty()).map(BTreeSet::len).collect()
    }
}

fn is_waitable(job: &Job, scope: Scope) -> bool {
    job.spec.waitable && !job.taken && job.spec.scope == scope
}

/// Why a job failed, if it did.
fn wait_text(job: &Job) -> Option<String> {
    match (&job.exception, job.code) {
        (Some(exception), _) => Some(format!("Fatal exception type={}", exception.kind)),
        (None, 0) => None,
        (None, code) => Some(format!("task(s) exited with exit code {code}")),
    }
}
