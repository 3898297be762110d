//! Whether Flux ever started the command of a submission that failed. `flux run` ends with 1 or 2 when Flux refuses a
//! job, as commands may. What tells the two apart is the job itself: there is none, or its eventlog (RFC 21) has a
//! fatal exception before the event that starts it. Only programs of Flux that are written in C are asked, so that a
//! view's Python plays no part.

use crate::flux::client::FluxClient;
use crate::flux::jobs;
use serde::Deserialize;
use std::process::Output;
use std::time::Duration;

/// Jobs of one submission (`--cc`) that are judged at most.
const MOST_JOBS: usize = 64;
/// How long one question to the broker may take, which answers from memory.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);
/// Event of a job whose processes are started (RFC 21).
const START: &str = "start";
/// Event of a job all of whose shells are ready to start its tasks (RFC 21, `guest.exec.eventlog`).
const SHELLS_READY: &str = "shell.init";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    NotSubmitted,
    /// Flux took it and never started the command, for the reason it gives.
    NotStarted(String),
    /// The command was started. The text is what Flux says of a program that could not be.
    Started(Option<String>),
}

/// The id of the newest job of this user, if there has been one; nothing when that cannot be found out.
pub(crate) async fn newest(client: &FluxClient) -> Option<Vec<u64>> {
    jobs::newest(&client.broker, 1).await
}

/// What became of the jobs since `before`; nothing when that cannot be found out.
pub(crate) async fn verdict(client: &FluxClient, before: &[u64]) -> Option<Verdict> {
    let mut newer = jobs::newest(&client.broker, MOST_JOBS + 1).await?;
    newer.truncate(newer.iter().position(|id| before.contains(id)).unwrap_or(newer.len()));
    if newer.is_empty() {
        return Some(Verdict::NotSubmitted);
    }
    if newer.len() > MOST_JOBS {
        return None;
    }
    let mut reason = None;
    for id in newer {
        match of_job(client, &id.to_string()).await? {
            Verdict::NotStarted(text) => reason = Some(text),
            started @ (Verdict::Started(_) | Verdict::NotSubmitted) => return Some(started),
        }
    }
    reason.map(Verdict::NotStarted)
}

async fn of_job(client: &FluxClient, id: &str) -> Option<Verdict> {
    let log = async |path: &[&str]| {
        let words = [&["job", "eventlog", "--format=json"], path, &[id]].concat();
        events(&ask(client, &words).await?)
    };
    let events = log(&[]).await?;
    let needs_more = has(&events, START) && fatal(&events).is_some();
    let execution = if needs_more { log(&["--path=exec"]).await } else { None };
    judge(&events, execution.as_deref())
}

/// A job that was started counts as such unless it is certain that none of its shells came as far as to start a task.
fn judge(events: &[Event], execution: Option<&[Event]>) -> Option<Verdict> {
    let fatal = fatal(events);
    let never_ready = execution.is_some_and(|events| !has(events, SHELLS_READY));
    if !has(events, START) || never_ready && fatal.is_some() {
        return fatal.map(|exception| Verdict::NotStarted(exception.text()));
    }
    let of_execution = fatal.filter(|exception| exception.kind.as_deref() == Some("exec"));
    Some(Verdict::Started(of_execution.and_then(|exception| exception.note.clone())))
}

fn has(events: &[Event], name: &str) -> bool {
    events.iter().any(|event| event.name == name)
}

/// The context of the first exception that ended the job.
fn fatal(events: &[Event]) -> Option<&Exception> {
    let exceptions = events.iter().filter(|event| event.name == "exception");
    exceptions.map(|event| &event.context).find(|context| context.severity == Some(0))
}

/// An entry of an eventlog (RFC 18).
#[derive(Debug, Deserialize)]
struct Event {
    name: String,
    #[serde(default)]
    context: Exception,
}

/// The context of an exception; other events have none of these.
#[derive(Debug, Default, Deserialize)]
struct Exception {
    #[serde(rename = "type")]
    kind: Option<String>,
    severity: Option<i64>,
    note: Option<String>,
}

impl Exception {
    fn text(&self) -> String {
        let kind = self.kind.as_deref().unwrap_or("exception");
        match self.note.as_deref() {
            Some("") | None => kind.to_owned(),
            Some(note) => format!("{kind}: {note}"),
        }
    }
}

/// The answer of `flux` to a question; nothing when it cannot be started or gives none in time.
async fn ask(client: &FluxClient, arguments: &[&str]) -> Option<Output> {
    client.ask(arguments, None, QUESTION_TIMEOUT).await.ok()
}

/// The events of an eventlog, one JSON object a line.
fn events(output: &Output) -> Option<Vec<Event>> {
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let events: Result<Vec<Event>, _> = lines.map(serde_json::from_slice).collect();
    events.ok().filter(|_| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> Vec<Event> {
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn exception(kind: &str, severity: u32, note: &str) -> String {
        let context = serde_json::json!({ "type": kind, "severity": severity, "note": note });
        serde_json::json!({ "timestamp": 2.5, "name": "exception", "context": context }).to_string()
    }

    #[test]
    fn the_first_exception_and_how_far_the_shells_came_decide() {
        let submit = r#"{"timestamp":1.5,"name":"submit","context":{"userid":1000,"version":1}}"#;
        let start = r#"{"timestamp":2.0,"name":"start"}"#;
        let ready = r#"{"timestamp":2.0,"name":"shell.init","context":{"leader-rank":0}}"#;
        let note = "task 0 (host a): start failed: x: No such file or directory";
        let (refused, failed) = (exception("alloc", 0, "need 9 nodes"), exception("exec", 0, note));
        let warning = exception("x", 3, "");
        let not_started = |text: &str| Some(Verdict::NotStarted(text.to_owned()));
        let started = |note: Option<&str>| Some(Verdict::Started(note.map(str::to_owned)));
        for (events, execution, verdict) in [
            (&[submit, &refused][..], None, not_started("alloc: need 9 nodes")),
            // It still waits.
            (&[submit, &warning], None, None),
            // Its execution is not to be found out.
            (&[submit, start, &failed], None, started(Some(note))),
            (&[submit, start, &failed], Some(&[ready][..]), started(Some(note))),
            (&[submit, start], None, started(None)),
            // Shells that were never ready have started no task.
            (&[submit, start, &failed], Some(&[]), not_started(&format!("exec: {note}"))),
        ] {
            assert_eq!(judge(&log(events), execution.map(log).as_deref()), verdict, "{events:?}");
        }
    }
}
