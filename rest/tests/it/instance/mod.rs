//! A recorded instance whose jobs and ranks change as a test says: what flux-core 0.88 answers about four ranks.

mod job;
mod resources;

use crate::broker::{Answers, NO_SERVICE, STATE_OF_LEAD};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use flux_protocol::idset::idset;
use flux_protocol::job::JobState;
use job::{CANCELED, COMPLETED, FAILED, Job};
use resources::{CORES, bracketed, hosts, set};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

/// `ENOENT`: there is no such job, or it has ended.
const UNKNOWN: u8 = 2;
/// `EINVAL`: the question is wrong.
pub(crate) const INVALID: u8 = 22;

const RANKS: [u32; 4] = [0, 1, 2, 3];
/// What a shell leaves that SIGTERM has ended.
const TERMINATED: u32 = (128 + 15) << 8;
/// How long ago the instance was started, in seconds.
const UPTIME: f64 = 754.0;

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// An entry of a log (RFC 18).
fn entry(name: &str, context: &Value) -> Value {
    if context.is_null() {
        return json!({ "timestamp": now(), "name": name });
    }
    json!({ "timestamp": now(), "name": name, "context": context })
}

struct State {
    /// The id of a job by the number of those before it.
    id: fn(u64) -> u64,
    jobs: BTreeMap<u64, Job>,
    /// What has happened to them.
    journal: Vec<Value>,
    drained: BTreeMap<u32, &'static str>,
    lost: BTreeSet<u32>,
}

impl State {
    fn job(&mut self, id: u64) -> &mut Job {
        self.jobs.get_mut(&id).unwrap()
    }

    fn happens(&mut self, id: u64, name: &str, context: &Value) {
        let event = entry(name, context);
        self.journal.push(json!({ "id": id, "events": [event] }));
        self.job(id).log.push(event);
    }

    fn submit(&mut self, asked: &Value) -> Value {
        let parts: Vec<_> = asked["J"].as_str().unwrap().split('.').collect();
        let jobspec = BASE64_STANDARD.decode(parts[1]).unwrap();
        let id = (self.id)(self.jobs.len() as u64);
        self.jobs.insert(id, Job::new(serde_json::from_slice(&jobspec).unwrap()));
        let context = json!({ "userid": 1000, "urgency": 16, "flags": 0, "version": 1 });
        self.happens(id, "submit", &context);
        self.happens(id, "validate", &Value::Null);
        self.happens(id, "depend", &Value::Null);
        self.happens(id, "priority", &json!({ "priority": 16 }));
        json!({ "id": id })
    }

    fn run(&mut self, id: u64, ranks: &[u32]) {
        self.job(id).ranks = ranks.to_vec();
        let summary = format!("rank{}/core[{CORES}]", bracketed(ranks));
        let annotations = json!({ "sched": { "resource_summary": summary } });
        self.happens(id, "alloc", &json!({ "annotations": annotations }));
        self.happens(id, "start", &Value::Null);
        let encoding = json!({ "stdout": "UTF-8", "stderr": "UTF-8" });
        let count = json!({ "stdout": ranks.len(), "stderr": ranks.len() });
        let context = json!({ "version": 1, "encoding": encoding, "count": count, "options": {} });
        self.job(id).output.push(entry("header", &context));
    }

    fn end(&mut self, id: u64, status: u32) {
        self.happens(id, "finish", &json!({ "status": status }));
        self.happens(id, "release", &json!({ "ranks": "all", "final": true }));
        self.happens(id, "free", &Value::Null);
        self.happens(id, "clean", &Value::Null);
    }

    fn raise(&mut self, asked: &Value) -> Result<(), u8> {
        let id = asked["id"].as_u64().unwrap();
        let state = self.jobs.get(&id).map(Job::state).filter(|state| *state != JobState::Inactive);
        let state = state.ok_or(UNKNOWN)?;
        let note = asked["note"].as_str().unwrap_or_default();
        let (kind, severity) = (&asked["type"], &asked["severity"]);
        let context = json!({ "type": kind, "severity": severity, "note": note, "userid": 1000 });
        self.happens(id, "exception", &context);
        if state == JobState::Run {
            self.end(id, TERMINATED);
        } else {
            self.happens(id, "clean", &Value::Null);
        }
        Ok(())
    }

    fn up(&self) -> Vec<u32> {
        RANKS.into_iter().filter(|rank| !self.lost.contains(rank)).collect()
    }

    /// The scheduler forgets a rank that is lost, and has those as down that are drained.
    fn scheduled(&self) -> Value {
        let up = self.up();
        let down: Vec<_> = self.drained.keys().copied().filter(|rank| up.contains(rank)).collect();
        let running = self.jobs.values().filter(|job| job.state() == JobState::Run);
        let used: BTreeSet<_> = running.flat_map(|job| job.ranks.iter().copied()).collect();
        let used: Vec<_> = used.into_iter().collect();
        json!({ "all": set(&up), "down": set(&down), "allocated": set(&used) })
    }

    fn status(&self) -> Value {
        let drained = self.drained.iter().map(|(rank, reason)| {
            (rank.to_string(), json!({ "timestamp": 1_795_863_612.0, "reason": reason }))
        });
        let drained: Map<_, _> = drained.collect();
        let lost: Vec<_> = self.lost.iter().copied().collect();
        json!({
            "R": set(&RANKS), "drain": drained, "online": idset(&self.up()), "offline": idset(&lost),
            "exclude": "", "torpid": "",
        })
    }

    fn counts(&self) -> Value {
        let in_state = |state| self.jobs.values().filter(|job| job.state() == state).count();
        let with = |result| self.jobs.values().filter(|job| job.result() == Some(result)).count();
        let states = JobState::ALL.map(|state| (state.name(), in_state(state)));
        let states: BTreeMap<_, _> =
            states.into_iter().chain([("total", self.jobs.len())]).collect();
        json!({
            "job_states": states, "successful": with(COMPLETED), "failed": with(FAILED),
            "canceled": with(CANCELED), "timeout": 0, "inactive_purged": 0, "queues": [],
        })
    }

    fn list(&self, asked: &Value) -> Result<Value, u8> {
        let mut jobs = Vec::new();
        for (id, job) in &self.jobs {
            if job.meets(&asked["constraint"])? {
                jobs.push(job.listed(*id, &asked["attrs"]));
            }
        }
        Ok(json!({ "jobs": jobs }))
    }

    fn events(&self, asked: &Value) -> Result<Value, u8> {
        let job = self.jobs.get(&asked["id"].as_u64().unwrap()).ok_or(UNKNOWN)?;
        let lines: Vec<_> = job.log.iter().map(|event| format!("{event}\n")).collect();
        Ok(json!({ "id": asked["id"], "eventlog": lines.concat() }))
    }
}

pub(crate) struct Instance {
    state: Mutex<State>,
    follows: bool,
    changed: Condvar,
    started: f64,
}

impl Instance {
    /// Without jobs. `id` is that of a job by the number of those before it. If `follows`, a client that reads the log of
    /// a job waits for its end.
    pub(crate) fn new(follows: bool, id: fn(u64) -> u64) -> Self {
        let (jobs, journal) = (BTreeMap::new(), Vec::new());
        let (drained, lost) = (BTreeMap::new(), BTreeSet::new());
        let state = Mutex::new(State { id, jobs, journal, drained, lost });
        Self { state, follows, changed: Condvar::new(), started: now() - UPTIME }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn change<Done>(&self, how: impl FnOnce(&mut State) -> Done) -> Done {
        let done = how(&mut self.state());
        self.changed.notify_all();
        done
    }

    /// Waits for what `look` finds.
    fn when<Found>(&self, mut look: impl FnMut(&State) -> Option<Found>) -> Found {
        let mut state = self.state();
        loop {
            if let Some(found) = look(&state) {
                return found;
            }
            state = self.changed.wait(state).unwrap();
        }
    }

    /// The job that was submitted last, and its jobspec.
    pub(crate) fn newest(&self) -> (u64, Value) {
        let state = self.state();
        let (id, job) = state.jobs.last_key_value().unwrap();
        (*id, job.jobspec.clone())
    }

    pub(crate) fn is_running(&self, id: u64) -> bool {
        self.state().job(id).state() == JobState::Run
    }

    pub(crate) fn run(&self, id: u64, ranks: &[u32]) {
        self.change(|state| state.run(id, ranks));
    }

    /// Runs each job that waits and is wanted by its jobspec: it prints `text` and ends.
    pub(crate) fn run_to_the_end(&self, is_wanted: fn(&Value) -> bool, text: &str) {
        let waits = |job: &Job| job.state() == JobState::Sched && is_wanted(&job.jobspec);
        let waiting: Vec<_> = {
            let state = self.state();
            state.jobs.iter().filter(|(_, job)| waits(job)).map(|(id, _)| *id).collect()
        };
        for id in waiting {
            self.run(id, &[0]);
            self.print(id, 0, "stdout", text);
            self.end(id, 0);
        }
    }

    pub(crate) fn print(&self, id: u64, rank: u32, stream: &str, text: &str) {
        let context = json!({ "stream": stream, "rank": rank.to_string(), "data": text });
        self.change(|state| state.job(id).output.push(entry("data", &context)));
    }

    /// The job ends by itself with this exit code.
    pub(crate) fn end(&self, id: u64, code: u32) {
        self.change(|state| state.end(id, code << 8));
    }

    pub(crate) fn drain(&self, rank: u32, reason: &'static str) {
        self.change(|state| state.drained.insert(rank, reason));
    }

    pub(crate) fn undrain(&self, rank: u32) {
        self.change(|state| state.drained.remove(&rank));
    }

    pub(crate) fn lose(&self, rank: u32) {
        self.change(|state| state.lost.insert(rank));
    }

    /// A rank that was lost is there again.
    pub(crate) fn regain(&self, rank: u32) {
        self.change(|state| state.lost.remove(&rank));
    }

    fn attribute(&self, name: &Value) -> Result<Value, u8> {
        let value = match name.as_str().unwrap() {
            "hostlist" => hosts(&RANKS),
            "version" => "0.88.0".to_owned(),
            "size" | "broker.quorum" => RANKS.len().to_string(),
            "rank" => "0".to_owned(),
            "broker.starttime" => format!("{:.2}", self.started),
            _ => return Err(UNKNOWN),
        };
        Ok(json!({ "value": value, "flags": 1 }))
    }

    /// The job, once it has been in the state that is asked for, or has ended (flux-core,
    /// `src/modules/job-list/idsync.c`).
    fn find(&self, asked: &Value) -> Result<Value, u8> {
        let (id, state) = (asked["id"].as_u64().unwrap(), &asked["state"]);
        self.when(|instance| {
            let Some(job) = instance.jobs.get(&id) else { return Some(Err(UNKNOWN)) };
            let mut states = job.states();
            let is_now = *state == 0
                || states.any(|been| *state == been.number() || been == JobState::Inactive);
            is_now.then(|| Ok(json!({ "job": job.listed(id, &asked["attrs"]) })))
        })
    }

    /// The entries of a log of a job, until it has ended.
    fn watch(self: &Arc<Self>, asked: &Value) -> Result<Answers, u8> {
        let id = asked["id"].as_u64().unwrap();
        let is_output = match asked["path"].as_str() {
            Some("eventlog") => false,
            Some("guest.output") => true,
            _ => return Err(INVALID),
        };
        if !self.state().jobs.contains_key(&id) {
            return Err(UNKNOWN);
        }
        let (instance, mut at) = (Arc::clone(self), 0);
        Ok(Answers::as_they_come(iter::from_fn(move || {
            instance.when(|state| {
                let job = &state.jobs[&id];
                let entries = if is_output { &job.output } else { &job.log };
                let next = entries.get(at).map(|entry| json!({ "event": format!("{entry}\n") }));
                at += usize::from(next.is_some());
                let has_ended = !instance.follows || job.state() == JobState::Inactive;
                let is_known = next.is_some() || has_ended;
                is_known.then(|| next.map(|next| next.to_string()))
            })
        })))
    }

    /// What has happened to the jobs that have not ended, the sign that this is all of it, and what happens then
    /// (flux-core, `src/modules/job-manager/journal.c`).
    fn journal(self: &Arc<Self>) -> Answers {
        let state = self.state();
        let active = state.jobs.iter().filter(|(_, job)| job.state() != JobState::Inactive);
        let active = active.map(|(id, job)| json!({ "id": id, "events": job.log }));
        let end = json!({ "id": -1, "events": [] });
        let before: Vec<_> = active.chain([end]).map(|entry| entry.to_string()).collect();
        let (instance, mut at) = (Arc::clone(self), state.journal.len());
        let after = iter::from_fn(move || {
            let next = instance.when(|state| state.journal.get(at).map(ToString::to_string));
            at += 1;
            Some(next)
        });
        Answers::as_they_come(before.into_iter().chain(after))
    }

    /// What its lead broker answers.
    pub(crate) fn answer(self: &Arc<Self>, topic: &str, payload: &str) -> Result<Answers, u8> {
        let asked: Value = serde_json::from_str(payload).unwrap_or_default();
        let answer = match topic {
            "job-info.eventlog-watch" => return self.watch(&asked),
            "job-manager.events-journal" => return Ok(self.journal()),
            "job-manager.raise" => {
                let raised = self.change(|state| state.raise(&asked));
                return raised.map(|()| String::new().into());
            }
            "state-machine.get" | STATE_OF_LEAD => json!({ "state": "run", "duration": 2.5 }),
            "groups.get" if asked["name"] == "broker.online" => {
                json!({ "members": idset(&self.state().up()) })
            }
            "attr.get" => self.attribute(&asked["name"])?,
            "resource.sched-status" => self.state().scheduled(),
            "resource.status" => self.state().status(),
            "job-list.job-stats" => self.state().counts(),
            "job-list.list" => self.state().list(&asked)?,
            "job-list.list-id" => self.find(&asked)?,
            "shutdown.start" => return Ok(String::new().into()),
            "job-ingest.submit" => self.change(|state| state.submit(&asked)),
            "job-info.lookup" if asked["keys"] == json!(["eventlog"]) => {
                self.state().events(&asked)?
            }
            _ => return Err(NO_SERVICE),
        };
        Ok(answer.to_string().into())
    }
}
