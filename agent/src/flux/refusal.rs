//! Whether Flux ever started the command of a submission that failed. `flux run` ends with 1 or 2 when Flux refuses a
//! job, as commands may. What tells the two apart is the job itself: there is none, or its eventlog (RFC 21) has a
//! fatal exception before the event that starts it.

use crate::flux::client::FluxClient;
use crate::flux::eventlog::{of_execution, of_job};
use flux_protocol::eventlog::{Event, fatal_exception};

/// Jobs of one submission (`--cc`) that are judged at most.
pub(crate) const MOST_JOBS: usize = 64;
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

/// What became of the jobs of a submission, the `newest` first; nothing when that cannot be found out.
pub(crate) async fn verdict(client: &FluxClient, newest: &[u64]) -> Option<Verdict> {
    if newest.is_empty() {
        return Some(Verdict::NotSubmitted);
    }
    if newest.len() > MOST_JOBS {
        return None;
    }
    let mut reason = None;
    for id in newest {
        match on_job(client, &id.to_string()).await? {
            Verdict::NotStarted(text) => reason = Some(text),
            started @ (Verdict::Started(_) | Verdict::NotSubmitted) => return Some(started),
        }
    }
    reason.map(Verdict::NotStarted)
}

async fn on_job(client: &FluxClient, id: &str) -> Option<Verdict> {
    let events = of_job(client, id).await?;
    let needs_more = has(&events, START) && fatal_exception(&events).is_some();
    let execution = if needs_more { of_execution(client, id).await } else { None };
    judge(&events, execution.as_deref())
}

/// A job that was started counts as such unless it is certain that none of its shells came as far as to start a task.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flux::eventlog::parsed;

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
            assert_eq!(
                judge(&parsed(events), execution.map(parsed).as_deref()),
                verdict,
                "{events:?}"
            );
        }
    }
}
