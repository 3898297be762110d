//! The logs of a job: its events (RFC 21) and the output of its tasks (RFC 24), as they come or as far as they have come.

use crate::answer::{Refusal, event};
use crate::context::Context;
use axum::response::sse::Event;
use flux_protocol::client::job_info::{self, EVENTS, OUTPUT, WAIT_CREATE};
use flux_protocol::client::{SocketError, job_list};
use flux_protocol::eventlog::OutputEvent;
use futures::future::ready;
use futures::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use std::sync::Arc;

/// Event of output that one answer has at most.
const MOST_OUTPUT: usize = 8 << 20;

#[derive(Debug, Clone)]
pub(crate) enum Log {
    Events,
    /// Of both streams, or of the one with this name.
    Output(Option<String>),
}

impl Log {
    const fn path(&self) -> &'static str {
        match self {
            Self::Events => EVENTS,
            Self::Output(_) => OUTPUT,
        }
    }

    /// The entry as a server-sent event, if the client wants it.
    fn event(&self, entry: &str) -> Option<Event> {
        match self {
            Self::Events => Some(event("event", &of_log(entry)?)),
            Self::Output(stream) => {
                let OutputEvent { stream: of, rank, data } = printed(entry, stream.as_deref())?;
                let text = String::from_utf8_lossy(&data);
                Some(event("output", &json!({ "stream": of, "rank": rank, "data": text })))
            }
        }
    }
}

/// The output in an entry of the log, if it is of the stream that is named.
fn printed(entry: &str, stream: Option<&str>) -> Option<OutputEvent> {
    OutputEvent::parse(entry).filter(|printed| stream.is_none_or(|stream| stream == printed.stream))
}

/// An event as the API has it.
fn of_log(entry: &str) -> Option<Value> {
    let entry: Value = serde_json::from_str(entry).ok()?;
    let context = entry.get("context").cloned().unwrap_or_else(|| json!({}));
    Some(json!({ "timestamp": entry["timestamp"], "name": entry["name"], "context": context }))
}

/// The log of job `id` from its beginning as server-sent events, while it grows; then the job. `path` is that of the
/// request.
pub(crate) async fn follow(
    context: Arc<Context>,
    id: u64,
    log: Log,
    path: String,
) -> Result<impl Stream<Item = Event> + Send, Refusal> {
    let entries = entries(&context, id, &log).await?;
    let events = entries.filter_map(move |entry| ready(log.event(&entry)));
    let end = stream::once(async move {
        end(&context, id)
            .await
            .unwrap_or_else(|error| event("error", &Refusal::from(error).document(&path)))
    });
    Ok(events.chain(end))
}

/// What job `id` prints to either stream, from its beginning, while it prints.
pub(crate) async fn text(
    context: &Context,
    id: u64,
) -> Result<impl Stream<Item = Vec<u8>> + Send + use<>, Refusal> {
    let entries = entries(context, id, &Log::Output(None)).await?;
    Ok(entries.filter_map(|entry| ready(printed(&entry, None).map(|printed| printed.data))))
}

/// The entries of the log of job `id` from its beginning, while it grows: none where a job has no such log.
async fn entries(
    context: &Context,
    id: u64,
    log: &Log,
) -> Result<impl Stream<Item = String> + Send + use<>, Refusal> {
    let mut socket = context.connect().await?;
    job_list::find(&mut socket, id, None).await?;
    let flags = if matches!(log, Log::Output(_)) { WAIT_CREATE } else { 0 };
    job_info::follow(&mut socket, id, log.path(), flags).await?;
    Ok(stream::unfold(socket, |mut socket| async {
        let entry = job_info::next_event(&mut socket).await.ok()??;
        Some((entry, socket))
    }))
}

async fn end(context: &Context, id: u64) -> Result<Event, SocketError> {
    let job = job_list::wait_for_end(&mut context.connect().await?, id).await?;
    Ok(event("end", &context.job(job)))
}

/// The last part of the output of job `id` so far, of that stream or of both, and whether there was more before.
pub(crate) async fn output(
    context: &Context,
    id: u64,
    stream: Option<&str>,
) -> Result<(Vec<u8>, bool), Refusal> {
    let mut socket = context.connect().await?;
    Ok(job_info::output(&mut socket, id, stream, MOST_OUTPUT).await?)
}

/// The events of job `id` so far.
pub(crate) async fn events(context: &Context, id: u64) -> Result<Value, Refusal> {
    let log = job_info::eventlog(&mut context.connect().await?, id, EVENTS).await?;
    let events: Vec<Value> = log.lines().filter_map(of_log).collect();
    Ok(json!({ "events": events }))
}
