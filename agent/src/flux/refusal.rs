//! Finds out whether Flux started the command of a failed submission. `flux run` exits with 1 or 2 when Flux refuses a
//! job, and so may a command. If Flux refused it, there is no job, or its eventlog (RFC 21) has a fatal exception before the
//! event that starts it.

use crate::flux::client::FluxClient;
use flux_protocol::client::BrokerAddress;
use flux_protocol::client::job_info::{EVENTS, EXECUTION, events};
use flux_protocol::eventlog::{Event, fatal_exception};

/// The largest number of jobs of one submission (`--cc`) whose eventlogs are read.
pub(crate) const MOST_JOBS: usize = 64;
/// The event at which the processes of a job are started (RFC 21).
const START: &str = "start";
/// The event at which all shells of a job are ready to start its tasks (RFC 21, `guest.exec.eventlog`).
const SHELLS_READY: &str = "shell.init";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    NotSubmitted,
    /// Flux accepted the job and did not start the command. The text is the reason of Flux.
    NotStarted(String),
    /// Flux started the command. The text is the error of a program that could not be executed.
    Started(Option<String>),
}

/// The verdict on the jobs of a submission, the `newest` first; none if Flux does not answer.
pub(crate) async fn verdict(client: &FluxClient, newest: &[u64]) -> Option<Verdict> {
    if newest.is_empty() {
        return Some(Verdict::NotSubmitted);
    }
    if newest.len() > MOST_JOBS {
        return None;
    }
    let mut reason = None;
    for id in newest {
        match on_job(&client.broker, *id).await? {
            Verdict::NotStarted(text) => reason = Some(text),
            started @ (Verdict::Started(_) | Verdict::NotSubmitted) => return Some(started),
        }
    }
    reason.map(Verdict::NotStarted)
}

async fn on_job(broker: &BrokerAddress, id: u64) -> Option<Verdict> {
    let job = events(broker, id, EVENTS).await?;
    let needs_more = has(&job, START) && fatal_exception(&job).is_some();
    let execution = if needs_more { events(broker, id, EXECUTION).await } else { None };
    judge(&job, execution.as_deref())
}

/// Judges a job by its events. A started job counts as started unless its events show that no shell was ready.
fn judge(events: &[Event], execution: Option<&[Event]>) -> Option<Verdict> {
    let fatal = fatal_exception(events);
    let never_ready = execution.is_some_and(|events| !has(events, SHELLS_READY));
    if !has(events, START) || never_ready && fatal.is_some() {
        return fatal.map(|exception| Verdict::NotStarted(text(exception)));
    }
    let of_execution = fatal.filter(|exception| exception.text("type") == Some("exec"));
    let note = of_execution.and_then(|exception| exception.text("note"));
    Some(Verdict::Started(note.map(str::to_owned)))
}

fn has(events: &[Event], name: &str) -> bool {
    events.iter().any(|event| event.name == name)
}

fn text(exception: &Event) -> String {
    let kind = exception.text("type").unwrap_or("exception");
    match exception.text("note") {
        Some("") | None => kind.to_owned(),
        Some(note) => format!("{kind}: {note}"),
    }
}
