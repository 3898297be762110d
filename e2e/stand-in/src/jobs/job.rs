//! One job's life.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::{Value, json};

use super::schedule::Allocation;
use super::spec::JobSpec;
use crate::output::Stream;
use crate::text::{idset, jobid};

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
    /// `cancel`, `exec`, `alloc`, `timeout`, `node-failure`.
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
    /// When it was submitted.
    pub(crate) submitted: Instant,
    /// When it was submitted, in seconds since 1970.
    pub(crate) submitted_at: f64,
    /// When its tasks were started.
    pub(crate) started: Option<Instant>,
    /// Seconds its tasks ran, once they are over.
    pub(crate) ran: Option<f64>,
    /// Events so far: seconds since submission, and text.
    pub(crate) events: Vec<(f64, String)>,
    /// What it got.
    pub(crate) allocation: Allocation,
    /// Tasks that still run.
    pub(crate) running: BTreeSet<u32>,
    /// Highest exit code of its tasks.
    pub(crate) code: i32,
    /// The exception that ended it.
    pub(crate) exception: Option<Exception>,
    /// Output that does not go to files.
    pub(crate) output: Vec<(Stream, u32, String)>,
    /// Files begun.
    pub(crate) files: BTreeSet<String>,
    /// Who watches, and whether they want output.
    pub(crate) watchers: Vec<(ClientId, bool)>,
    /// Whether `flux job wait` has had the result.
    pub(crate) taken: bool,
}

impl Job {
    /// A job that has just been submitted.
    pub(crate) fn new(id: u64, spec: JobSpec, submitted_at: f64) -> Self {
        Self {
            id,
            spec,
            state: JobState::Pending,
            submitted: Instant::now(),
            submitted_at,
            started: None,
            ran: None,
            events: Vec::new(),
            allocation: Allocation::default(),
            running: BTreeSet::new(),
            code: 0,
            exception: None,
            output: Vec::new(),
            files: BTreeSet::new(),
            watchers: Vec::new(),
            taken: false,
        }
    }

    /// Records an event and returns it.
    pub(crate) fn event(&mut self, text: impl Into<String>) -> (f64, String) {
        let event = (self.submitted.elapsed().as_secs_f64(), text.into());
        self.events.push(event.clone());
        event
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
            (JobState::Inactive, Some(exception), _) if exception.kind == "timeout" => {
                ("TO", "TIMEOUT")
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
        Some(in_directory(&self.expand(template, 0), &self.spec.directory))
    }

    /// A text with the job's mustache tags filled in.
    pub(crate) fn expand(&self, template: &str, task: u32) -> String {
        let id = jobid::encode(self.id);
        [
            ("{{id}}", id.clone()),
            ("{{id.f58}}", id.clone()),
            ("{{jobid}}", id),
            ("{{id.dec}}", self.id.to_string()),
            ("{{name}}", self.spec.name.clone()),
            ("{{size}}", self.spec.processes().to_string()),
            ("{{nnodes}}", self.allocation.cores.len().to_string()),
            ("{{taskid}}", task.to_string()),
            ("{{task.rank}}", task.to_string()),
        ]
        .iter()
        .fold(template.to_owned(), |text, (tag, value)| text.replace(tag, value))
    }

    /// The job as `flux jobs --json` shows it.
    pub(crate) fn to_json(&self) -> Value {
        let (status_abbrev, result) = self.status();
        let state = match self.state {
            JobState::Pending => "SCHED",
            JobState::Running => "RUN",
            JobState::Inactive => "INACTIVE",
        };
        let since = self.started.map_or(0.0, |started| started.elapsed().as_secs_f64());
        let runtime = self.ran.unwrap_or(since);
        let mut value = json!({
            "id": self.id, "userid": self.spec.user, "urgency": self.spec.urgency,
            "t_submit": self.submitted_at, "state": state, "name": self.spec.name,
            "ntasks": self.spec.tasks, "status": if result.is_empty() { state } else { result },
            "status_abbrev": status_abbrev, "runtime": runtime,
        });
        if !self.allocation.cores.is_empty() {
            let ranks = self.allocation.cores.keys().copied();
            value["nnodes"] = json!(self.allocation.cores.len());
            value["ranks"] = json!(idset::encode(ranks));
        }
        if self.state == JobState::Inactive {
            value["result"] = json!(result);
            value["success"] = json!(result == "COMPLETED");
            value["returncode"] = json!(self.exit_code());
        }
        if let Some(exception) = &self.exception {
            value["exception"] = json!({
                "occurred": true, "severity": 0, "type": exception.kind, "note": exception.note,
            });
        }
        value
    }
}

fn in_directory(path: &str, directory: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("{directory}/{path}") }
}
