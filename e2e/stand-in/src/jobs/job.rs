//! One job's life.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schedule::Allocation;
use crate::output::Stream;
use crate::protocol::{Client, JobSpec, Reply};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum JobState {
    Pending,
    Running,
    Inactive,
}

/// A fatal exception.
#[derive(Serialize, Deserialize)]
pub(crate) struct Exception {
    /// `cancel`, `exec`, `alloc`, `node-failure`.
    pub(crate) kind: String,
    pub(crate) note: String,
}

/// A job; what a dump keeps of it is all but those who wait for it, and its output.
#[derive(Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) spec: JobSpec,
    pub(crate) state: JobState,
    pub(crate) started: bool,
    pub(crate) allocation: Allocation,
    /// The tasks that run, and on which rank each does.
    #[serde(skip)]
    pub(crate) running: BTreeMap<u32, u32>,
    /// The highest code of the tasks so far.
    pub(crate) code: i32,
    pub(crate) exception: Option<Exception>,
    /// What the tasks wrote, for those who watch later.
    #[serde(skip)]
    pub(crate) output: Vec<(Stream, String)>,
    /// Who watches, and whether they want output.
    #[serde(skip)]
    pub(crate) watchers: Vec<(Client, bool)>,
}

impl Job {
    pub(crate) fn new(id: u64, spec: JobSpec) -> Self {
        Self {
            id,
            spec,
            state: JobState::Pending,
            started: false,
            allocation: Allocation::default(),
            running: BTreeMap::new(),
            code: 0,
            exception: None,
            output: Vec::new(),
            watchers: Vec::new(),
        }
    }

    /// Its end, for whoever watches.
    pub(crate) fn end(&self) -> Reply {
        let exception = self.exception.as_ref();
        let exception = exception.map(|it| format!("type={} severity=0 {}", it.kind, it.note));
        let (code, started) = (self.exit_code(), self.started);
        Reply::Done(json!({ "code": code, "exception": exception, "started": started }))
    }

    /// Exit code for whoever waited: the tasks' highest, or 1 after an exception before the start.
    fn exit_code(&self) -> i32 {
        if self.exception.is_some() { self.code.max(1) } else { self.code }
    }

    /// Why it failed, if it did, as `flux job wait` says it.
    pub(crate) fn failure(&self) -> Option<String> {
        match (&self.exception, self.code) {
            (Some(exception), _) => Some(format!("Fatal exception type={}", exception.kind)),
            (None, 0) => None,
            (None, code) => Some(format!("task(s) exited with exit code {code}")),
        }
    }

    /// The job as `flux jobs` shows it.
    pub(crate) fn to_json(&self) -> Value {
        let (state, status, abbreviation) = match (self.state, &self.exception, self.code) {
            (JobState::Pending, ..) => ("SCHED", "SCHED", "S"),
            (JobState::Running, ..) => ("RUN", "RUN", "R"),
            (JobState::Inactive, Some(exception), _) if exception.kind == "cancel" => {
                ("INACTIVE", "CANCELED", "CA")
            }
            (JobState::Inactive, None, 0) => ("INACTIVE", "COMPLETED", "CD"),
            (JobState::Inactive, ..) => ("INACTIVE", "FAILED", "F"),
        };
        json!({
            "id": self.id, "userid": self.spec.user, "name": self.spec.name, "state": state,
            "status": status, "status_abbrev": abbreviation, "ntasks": self.spec.tasks,
            "nnodes": self.allocation.cores.len(),
        })
    }

    /// The events of the job, and of its execution (RFC 21).
    pub(crate) fn events(&self) -> Value {
        let event = |name: &str| json!({ "timestamp": 0.0, "name": name });
        let mut events: Vec<Value> = ["submit", "depend", "priority"].map(event).into();
        if self.started {
            events.extend(["alloc", "start"].map(event));
        }
        if let Some(Exception { kind, note }) = &self.exception {
            let mut raised = event("exception");
            raised["context"] =
                json!({ "type": kind, "severity": 0, "note": note, "userid": self.spec.user });
            events.push(raised);
        }
        if self.state == JobState::Inactive {
            events.push(event("clean"));
        }
        let names = ["init", "starting", "shell.init", "shell.start"];
        json!({ "eventlog": events, "exec": self.started.then(|| names.map(event)) })
    }
}
