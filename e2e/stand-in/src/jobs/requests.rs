//! Answers about jobs and ranks, and clients that wait for a job.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::job::{Job, JobState};
use super::manager::Manager;
use crate::protocol::{Client, Reply, Scope};
use crate::text;

/// `EEXIST` and `EINVAL` of Linux.
const EXISTS: u8 = 17;
const INVALID: u8 = 22;
/// Exit code of `flux job wait` for a job that cannot be waited for.
const NOT_WAITABLE: u8 = 2;

impl Manager {
    /// A client wants to see a job.
    pub(crate) fn watch(&mut self, client: Client, id: u64, output: bool) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return client(Reply::failed("No such file or directory"));
        };
        for (stream, text) in job.output.iter().filter(|_| output) {
            client(Reply::Output(*stream, text.clone()));
        }
        if job.state == JobState::Inactive {
            client(job.end());
        } else {
            job.watchers.push((client, output));
        }
    }

    /// A client waits for a result, which it takes.
    pub(crate) fn wait(&mut self, client: Client, scope: Scope) {
        if !self.jobs.values().any(|job| job.spec.waitable && job.spec.scope == scope) {
            let reason = "there are no more waitable jobs".to_owned();
            return client(Reply::Failed(reason, NOT_WAITABLE));
        }
        self.waiters.push((client, scope));
        self.settle();
    }

    /// A client waits for an idle queue.
    pub(crate) fn idle(&mut self, client: Client, scope: Scope) {
        self.idlers.push((client, scope));
        self.settle();
    }

    /// Answers the waiting clients whose wait is over.
    pub(super) fn settle(&mut self) {
        for (client, scope) in std::mem::take(&mut self.waiters) {
            let over = |job: &&mut Job| {
                job.spec.waitable && job.state == JobState::Inactive && job.spec.scope == scope
            };
            if let Some(job) = self.jobs.values_mut().find(over) {
                job.spec.waitable = false;
                client(Reply::Done(json!({ "id": job.id, "text": job.failure() })));
            } else {
                self.waiters.push((client, scope));
            }
        }
        for (client, scope) in std::mem::take(&mut self.idlers) {
            if self.in_state(JobState::Running, scope).next().is_some() {
                self.idlers.push((client, scope));
            } else {
                client(Reply::Done(json!(self.in_state(JobState::Pending, scope).count())));
            }
        }
    }

    /// The events of a job and of its execution.
    pub(crate) fn eventlog(&self, id: u64) -> Value {
        self.jobs.get(&id).map_or(Value::Null, Job::events)
    }

    /// Ranks get no more jobs, for a `reason`; or jobs again, without one. One that is as it is to be fails
    /// the request, as without `--update`.
    pub(crate) fn drain(&mut self, ranks: &BTreeSet<u32>, reason: Option<&str>) -> Reply {
        if ranks.iter().any(|rank| !self.cores.contains_key(rank)) {
            return Reply::Failed("idset is out of range".to_owned(), INVALID);
        }
        let is_so = |rank: &&u32| self.drained.contains_key(rank) == reason.is_some();
        let wrong: BTreeSet<u32> = ranks.iter().filter(is_so).copied().collect();
        if !wrong.is_empty() {
            let (ids, already) = (text::encode_ids(&wrong), reason.map_or("not", |_| "already"));
            return Reply::Failed(format!("rank {ids} {already} drained"), EXISTS);
        }
        match reason {
            Some(reason) => {
                self.drained.extend(ranks.iter().map(|rank| (*rank, reason.to_owned())));
            }
            None => self.drained.retain(|rank, _| !ranks.contains(rank)),
        }
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
