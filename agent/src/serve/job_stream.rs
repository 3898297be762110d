//! The logs of a job: its events (RFC 21), and what its tasks print (RFC 24), as they come or as far as they have come.

use crate::flux::broker_socket::{BrokerSocket, SocketError};
use crate::serve::answer::{Refusal, event};
use crate::serve::context::{Context, ended, find};
use crate::serve::printed::{Printed, Tail};
use bytes::Bytes;
use futures::{Stream, stream};
use nix::errno::Errno;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The service that answers with each entry of a log (flux-core, `src/modules/job-info/watch.c`).
const WATCH: &str = "job-info.eventlog-watch";
/// Waits for a log that is not there yet (flux-core, `src/common/libjob/job.h`).
const WAIT_FOR_LOG: u32 = 1;
/// Answers without a payload behind what there is by then: flux-core 0.77 or later.
const MARK_END: u32 = 2;
/// How long the next entry may take that is there already.
const PATIENCE: Duration = Duration::from_secs(30);

/// A log of a job.
#[derive(Debug, Clone)]
pub(super) enum Log {
    Events,
    /// Of both streams, or of the one with this name.
    Output(Option<String>),
}

#[derive(Deserialize)]
struct Entry {
    event: String,
}

impl Log {
    const fn path(&self) -> &'static str {
        match self {
            Self::Events => "eventlog",
            Self::Output(_) => "guest.output",
        }
    }

    /// The entry as a server-sent event, if it is one that is asked for.
    fn event(&self, entry: &str) -> Option<Bytes> {
        match self {
            Self::Events => Some(event("event", &of_log(entry)?)),
            Self::Output(stream) => {
                let Printed { stream: of, rank, data } = printed(entry, stream.as_deref())?;
                let text = String::from_utf8_lossy(&data);
                Some(event("output", &json!({ "stream": of, "rank": rank, "data": text })))
            }
        }
    }
}

/// What was printed to that stream, if one is named.
fn printed(entry: &str, stream: Option<&str>) -> Option<Printed> {
    Printed::of(entry).filter(|printed| stream.is_none_or(|stream| stream == printed.stream))
}

/// An event as the API has it.
fn of_log(entry: &str) -> Option<Value> {
    let entry: Value = serde_json::from_str(entry).ok()?;
    let context = entry.get("context").cloned().unwrap_or_else(|| json!({}));
    Some(json!({ "timestamp": entry["timestamp"], "name": entry["name"], "context": context }))
}

/// The log of job `id` from its beginning as server-sent events, while it grows; then the job. `path` is that of the
/// request.
pub(super) async fn follow(
    context: Arc<Context>,
    id: u64,
    log: Log,
    path: String,
) -> Result<impl Stream<Item = Bytes> + Send, Refusal> {
    let mut socket = context.connect().await?;
    find(&mut socket, id, None).await?;
    let flags = match log {
        Log::Events => 0,
        Log::Output(_) => WAIT_FOR_LOG,
    };
    let asked = json!({ "id": id, "path": log.path(), "flags": flags });
    socket.stream(WATCH, &asked).await?;
    let following = Following { context, socket, id, log, path, part: Part::Log };
    Ok(stream::unfold(following, |mut following| async {
        let next = following.next().await?;
        Some((next, following))
    }))
}

struct Following {
    context: Arc<Context>,
    socket: BrokerSocket,
    id: u64,
    log: Log,
    path: String,
    part: Part,
}

/// What comes next.
enum Part {
    Log,
    Job,
    Nothing,
}

impl Following {
    async fn next(&mut self) -> Option<Bytes> {
        if matches!(self.part, Part::Log) {
            // A job that has not printed anything has no such log: its end is what there is to say.
            while let Ok(Some(entry)) = self.socket.next::<Option<Entry>>(WATCH).await {
                let event = entry.and_then(|entry| self.log.event(&entry.event));
                if event.is_some() {
                    return event;
                }
            }
            self.part = Part::Job;
        }
        if matches!(self.part, Part::Nothing) {
            return None;
        }
        self.part = Part::Nothing;
        Some(match self.end().await {
            Ok(end) => end,
            Err(error) => event("error", &Refusal::from(error).document(&self.path)),
        })
    }

    async fn end(&self) -> Result<Bytes, SocketError> {
        let job = ended(&mut self.context.connect().await?, self.id).await?;
        Ok(event("end", &self.context.job(job)))
    }
}

/// What job `id` has printed so far to that stream, or to both: the end of it, and whether there was more.
pub(super) async fn output(
    context: &Context,
    id: u64,
    stream: Option<&str>,
) -> Result<(Vec<u8>, bool), Refusal> {
    let mut socket = context.connect().await?;
    let mut tail = Tail::default();
    // Before it starts, Flux would wait for that.
    if !log(&mut socket, id).await?.iter().any(|event| event["name"] == "start") {
        return Ok(tail.finish());
    }
    let asked = json!({ "id": id, "path": "guest.output", "flags": MARK_END });
    socket.stream(WATCH, &asked).await?;
    let silent = || Err(SocketError::Silent { topic: WATCH.to_owned() });
    loop {
        let next = timeout(PATIENCE, socket.next::<Option<Entry>>(WATCH)).await;
        match next.unwrap_or_else(|_| silent()) {
            Ok(Some(Some(entry))) => {
                if let Some(printed) = printed(&entry.event, stream) {
                    tail.push(&printed.data);
                }
            }
            Ok(Some(None) | None) => return Ok(tail.finish()),
            // Nothing has been printed yet, or it went to a file.
            Err(error) if error.is(Errno::ENOENT) => return Ok(tail.finish()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The events of job `id` so far.
pub(super) async fn events(context: &Context, id: u64) -> Result<Value, Refusal> {
    let events = log(&mut context.connect().await?, id).await?;
    Ok(json!({ "events": events }))
}

async fn log(socket: &mut BrokerSocket, id: u64) -> Result<Vec<Value>, SocketError> {
    let asked = json!({ "id": id, "keys": ["eventlog"], "flags": 0 });
    let found: Value = socket.ask_lead("job-info.lookup", &asked).await?;
    Ok(found["eventlog"].as_str().unwrap_or_default().lines().filter_map(of_log).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_logs_become_server_sent_events() {
        let entry = r#"{"timestamp":1.5,"name":"alloc"}"#;
        let text = "event: event\ndata: {\"context\":{},\"name\":\"alloc\",\"timestamp\":1.5}\n\n";
        assert_eq!(Log::Events.event(entry).unwrap(), text);
        let entry = r#"{"timestamp":1.5,"name":"data","context":{"stream":"stderr","rank":"1","data":"a\n"}}"#;
        let text =
            "event: output\ndata: {\"data\":\"a\\n\",\"rank\":\"1\",\"stream\":\"stderr\"}\n\n";
        assert_eq!(Log::Output(None).event(entry).unwrap(), text);
        assert_eq!(Log::Output(Some("stdout".to_owned())).event(entry), None);
        assert_eq!((Log::Output(None).event("x"), Log::Events.event("x")), (None, None));
    }
}
