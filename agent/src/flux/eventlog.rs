//! The eventlogs of a job (RFC 18, RFC 21), as `flux job eventlog` prints them: a program in C, so that a view's Python
//! plays no part.

use crate::flux::client::FluxClient;
use serde::Deserialize;
use serde_json::Value;
use std::process::Output;
use std::time::Duration;

/// How long one question to the broker may take, which answers from memory.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);

/// An entry of an eventlog (RFC 18).
#[derive(Debug, Deserialize)]
pub(super) struct Event {
    #[serde(default)]
    pub(super) timestamp: f64,
    pub(super) name: String,
    #[serde(default)]
    pub(super) context: Context,
}

/// What is read of the contexts of events.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Context {
    /// Of an exception.
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) severity: Option<i64>,
    pub(super) note: Option<String>,
    /// Of a task that has ended: its rank, and how it ended, as wait(2) has it.
    #[serde(default)]
    pub(super) rank: Value,
    #[serde(default)]
    pub(super) wait_status: Value,
}

/// The events of the job `id` that lead from its submission to its end.
pub(super) async fn of_job(client: &FluxClient, id: &str) -> Option<Vec<Event>> {
    log(client, &[id]).await
}

/// The events of its execution (`guest.exec.eventlog`).
pub(super) async fn of_execution(client: &FluxClient, id: &str) -> Option<Vec<Event>> {
    log(client, &["--path=exec", id]).await
}

/// The first exception that ended the job.
pub(super) fn fatal(events: &[Event]) -> Option<&Event> {
    events.iter().find(|event| event.name == "exception" && event.context.severity == Some(0))
}

/// The answer of `flux` to a question; nothing when it cannot be started or gives none in time.
pub(super) async fn ask(client: &FluxClient, arguments: &[&str]) -> Option<Output> {
    client.ask(arguments, None, QUESTION_TIMEOUT).await.ok()
}

async fn log(client: &FluxClient, arguments: &[&str]) -> Option<Vec<Event>> {
    let words = [&["job", "eventlog", "--format=json"], arguments].concat();
    events(&ask(client, &words).await?)
}

/// The events of an eventlog, one JSON object a line.
fn events(output: &Output) -> Option<Vec<Event>> {
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let events: Result<Vec<Event>, _> = lines.map(serde_json::from_slice).collect();
    events.ok().filter(|_| output.status.success())
}

#[cfg(test)]
pub(super) fn parsed(lines: &[&str]) -> Vec<Event> {
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}
