//! When the tasks of containers began and ended, as containerd reports it: to the millisecond, where a pod's
//! status has whole seconds and comes late.

use e2e::prelude::*;
use k8s_openapi::jiff::Timestamp;
use std::fs;
use std::process::{Child, Stdio};
use tempfile::NamedTempFile;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Started,
    Ended,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskEvent {
    pub(super) at: Timestamp,
    pub(super) container: String,
    pub(super) change: Change,
}

/// One line of `ctr events`: date, time, zone, its name, namespace, topic, details.
fn parse(line: &str) -> Option<TaskEvent> {
    let (before, details) = line.split_once('{')?;
    let words: Vec<&str> = before.split_whitespace().collect();
    let change = match *words.last()? {
        "/tasks/start" => Change::Started,
        "/tasks/exit" => Change::Ended,
        _ => return None,
    };
    let [date, time, ..] = words.as_slice() else { return None };
    let details: Value = serde_json::from_str(&format!("{{{details}")).ok()?;
    let container = details["container_id"].as_str()?.to_owned();
    // A program that is executed in the container has an id of its own.
    let own = ["id", "exec_id"]
        .iter()
        .all(|id| details[id].as_str().is_none_or(|id| id.is_empty() || id == container));
    // containerd's times are in UTC.
    let at = format!("{date}T{time}Z").parse().ok().filter(|_| own)?;
    Some(TaskEvent { at, container, change })
}

/// Listens to a node's containerd until it is dropped.
#[derive(Debug)]
pub(super) struct Containerd {
    listening: Child,
    reported: NamedTempFile,
}

impl Containerd {
    pub(super) fn listen(environment: &Environment) -> Result<Self> {
        let node = environment.cluster.own().context("the node is out of reach")?;
        let mut command = node.containerd();
        let reported = NamedTempFile::new().context("making a file for what containerd reports")?;
        let stdout = reported.reopen().context("opening the file for what containerd reports")?;
        // Without its warnings about deprecated settings.
        command.arg("events").stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null());
        Ok(Self { listening: command.spawn().context("listening to containerd")?, reported })
    }

    pub(super) fn events(&self) -> Result<Vec<TaskEvent>> {
        let reported =
            fs::read_to_string(&self.reported).context("reading what containerd reports")?;
        Ok(reported.lines().filter_map(parse).collect())
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.listening.kill();
        let _ = self.listening.wait();
    }
}
