//! One job's life.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::schedule::Allocation;
use super::spec::JobSpec;
use crate::output::Stream;
use crate::protocol::Reply;
use crate::text::jobid;

/// Names a client of this broker or of a worker.
pub(crate) type ClientId = (Option<u32>, u64);

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobState {
    /// Waiting for resources.
    Pending,
    /// Its tasks run.
    Running,
    /// Over.
    Inactive,
}

/// A fatal exception.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exception {
    /// `cancel`, `exec`, `alloc`, `node-failure`.
    pub(crate) kind: &'static str,
    /// What is said about it.
    pub(crate) note: String,
}

/// A job.
#[derive(Debug)]
pub(crate) struct Job {
    /// Its id.
    pub(crate) id: u64,
    /// What was asked for.
    pub(crate) spec: JobSpec,
    /// Where it is.
    pub(crate) state: JobState,
    /// When it was submitted, in seconds since 1970.
    pub(crate) submitted_at: f64,
    /// Whether its tasks were started.
    pub(crate) started: bool,
    /// What it got.
    pub(crate) allocation: Allocation,
    /// Tasks that still run, and the rank of each.
    pub(crate) running: BTreeMap<u32, u32>,
    /// Highest exit code of its tasks.
    pub(crate) code: i32,
    /// The exception that ended it.
    pub(crate) exception: Option<Exception>,
    /// Output that does not go to files.
    pub(crate) output: Vec<(Stream, String)>,
    /// Files begun.
    pub(crate) files: BTreeSet<String>,
    /// Who watches, and whether they want output.
    pub(crate) watchers: Vec<(ClientId, bool)>,
    /// Whether `flux job wait` has had the result.
    pub(crate) taken: bool,
}

impl Job {
    /// Its end, for whoever watches.
    pub(crate) fn end(&self) -> Reply {
        let exception = self.exception.as_ref();
        let exception = exception.map(|it| format!("type={} severity=0 {}", it.kind, it.note));
        let (code, started) = (self.exit_code(), self.started);
        Reply::Done(json!({ "code": code, "exception": exception, "started": started }))
    }

    /// A job that has just been submitted.
    pub(crate) fn new(id: u64, spec: JobSpec, submitted_at: f64) -> Self {
        Self {
            id,
            spec,
            state: JobState::Pending,
            submitted_at,
            started: false,
            allocation: Allocation::default(),
            running: BTreeMap::new(),
            code: 0,
            exception: None,
            output: Vec::new(),
            files: BTreeSet::new(),
            watchers: Vec::new(),
            taken: false,
        }
    }

    /// Exit code for whoever waited: the tasks' highest, or 1 after an exception before the start.
    pub(crate) fn exit_code(&self) -> i32 {
        if self.exception.is_some() { self.code.max(1) } else { self.code }
    }

    /// `R`, `S`... as `flux jobs` abbreviates it, and the result's name.
    pub(crate) fn status(&self) -> (&'static str, &'static str) {
        match (self.state, &self.exception, self.code) {
            (JobState::Pending, _, _) => ("S", ""),
            (JobState::Running, _, _) => ("R", ""),
            (JobState::Inactive, Some(exception), _) if exception.kind == "cancel" => {
                ("CA", "CANCELED")
            }
            (JobState::Inactive, None, 0) => ("CD", "COMPLETED"),
            (JobState::Inactive, _, _) => ("F", "FAILED"),
        }
    }

    /// Where a stream's text goes, `None` where watchers get it.
    pub(crate) fn file(&self, stream: Stream) -> Option<String> {
        let template = match stream {
            Stream::Output => self.spec.output.as_ref(),
            Stream::Error => self.spec.error.as_ref().or(self.spec.output.as_ref()),
        }?;
        let file = template.replace("{{id}}", &jobid::encode(self.id));
        let path = Path::new(&self.spec.directory).join(file);
        Some(path.display().to_string())
    }

    /// The job as `flux jobs` shows it, on `hosts`.
    pub(crate) fn to_json(&self, hosts: &str) -> Value {
        let (status_abbrev, result) = self.status();
        let state = match self.state {
            JobState::Pending => "SCHED",
            JobState::Running => "RUN",
            JobState::Inactive => "INACTIVE",
        };
        json!({
            "id": self.id, "userid": self.spec.user, "state": state, "name": self.spec.name,
            "ntasks": self.spec.tasks, "status": if result.is_empty() { state } else { result },
            "status_abbrev": status_abbrev,
            "nnodes": self.allocation.cores.len(), "nodelist": hosts,
            "returncode": (self.state == JobState::Inactive).then(|| self.exit_code()),
            "spec": (self.state == JobState::Pending).then_some(&self.spec),
            "submitted": self.submitted_at,
        })
    }
}
