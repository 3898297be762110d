//! One job's life.

use super::schedule::Allocation;
use crate::output::Stream;
use crate::protocol::{JobSpec, Reply};
use flux_protocol::idset::idset;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum JobState {
    #[default]
    Pending,
    Running,
    Inactive,
}

/// A job; a dump has all of it but what its tasks write.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) spec: JobSpec,
    pub(crate) state: JobState,
    pub(crate) allocation: Allocation,
    /// The tasks that run, and on which rank each does.
    #[serde(skip)]
    pub(crate) running: BTreeMap<u32, u32>,
    /// The highest code of the tasks so far.
    pub(crate) code: i32,
    /// The task that ended first, and its status as wait(2) has it.
    pub(crate) first_end: Option<(u32, i32)>,
    /// What a fatal exception is, `cancel`, `exec`, `alloc` or `node-failure`, and a note.
    pub(crate) exception: Option<(String, String)>,
    #[serde(skip)]
    pub(crate) output: Vec<(Stream, String)>,
}

impl Job {
    fn is_started(&self) -> bool {
        !self.allocation.tasks.is_empty()
    }

    /// Its end, for clients that watch or wait. After an exception the code is not 0.
    pub(crate) fn end(&self) -> Reply {
        let exception = self.exception.as_ref();
        let exception = exception.map(|(kind, note)| format!("type={kind} severity=0 {note}"));
        let code = self.code.max(i32::from(exception.is_some()));
        let started = self.is_started();
        Reply::Done(json!({
            "id": self.id, "code": code, "exception": exception, "started": started,
        }))
    }

    pub(crate) fn to_json(&self) -> Value {
        let (state, status, abbreviation) = match (self.state, &self.exception, self.code) {
            (JobState::Pending, ..) => ("SCHED", "SCHED", "S"),
            (JobState::Running, ..) => ("RUN", "RUN", "R"),
            (JobState::Inactive, Some((kind, _)), _) if kind == "cancel" => {
                ("INACTIVE", "CANCELED", "CA")
            }
            (JobState::Inactive, None, 0) => ("INACTIVE", "COMPLETED", "CD"),
            (JobState::Inactive, ..) => ("INACTIVE", "FAILED", "F"),
        };
        json!({
            "id": self.id, "userid": self.spec.user, "name": self.spec.name, "state": state,
            "status": status, "status_abbrev": abbreviation, "ntasks": self.spec.tasks,
            "nnodes": if self.is_started() { Some(self.allocation.cores.len()) } else { self.spec.nodes },
        })
    }

    /// As `job-list.list` has it (flux-core, `modules/job-list/job_util.c`), without times.
    pub(crate) fn listed(&self) -> Value {
        let mut job = self.to_json();
        job["state"] = [8, 16, 64][self.state as usize].into();
        job["ncores"] = (!self.spec.exclusive).then_some(self.spec.tasks).into();
        if self.is_started() {
            let ranks: Vec<u32> = self.allocation.cores.keys().copied().collect();
            let bare = idset(&ranks);
            let text = if ranks.len() > 1 { format!("[{bare}]") } else { bare };
            job["ranks"] = text.into();
        }
        if self.state == JobState::Inactive {
            let results = ["COMPLETED", "FAILED", "CANCELED"];
            let result = results.iter().position(|result| job["status"] == *result);
            job["result"] = result.map(|place| 1 << place).into();
        }
        job
    }

    /// The events of the job, and of its execution (RFC 21).
    pub(crate) fn events(&self) -> Value {
        let event = |name: &str| json!({ "timestamp": 0.0, "name": name });
        let mut events: Vec<Value> = ["submit", "depend", "priority"].map(event).into();
        if self.is_started() {
            events.extend(["alloc", "start"].map(event));
        }
        if let Some((kind, note)) = &self.exception {
            let mut raised = event("exception");
            raised["context"] =
                json!({ "type": kind, "severity": 0, "note": note, "userid": self.spec.user });
            events.push(raised);
        }
        if self.state == JobState::Inactive {
            events.push(event("clean"));
        }
        let names = ["init", "starting", "shell.init", "shell.start"];
        let mut execution = names.map(event).to_vec();
        execution.extend(self.first_end.map(|(task, status)| {
            let context = json!({ "rank": task, "wait_status": status });
            json!({ "timestamp": 0.0, "name": "shell.task-exit", "context": context })
        }));
        json!({ "eventlog": events, "guest.exec.eventlog": self.is_started().then_some(execution) })
    }
}
