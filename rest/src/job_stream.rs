//! The logs of a job: its events (RFC 21) and the output of its tasks (RFC 24), as they come or as far as they have come.

use crate::answer::{Refusal, event};
use crate::context::Context;
use axum::response::sse::Event;
use flux_protocol::client::job_info::{self, EVENTS, OUTPUT, WAIT_CREATE};
use flux_protocol::client::job_list;
use flux_protocol::eventlog::OutputEvent;
use futures::future::ready;
use futures::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Debug, Clone)]
pub(crate) enum Log {
    Events,
    /// Of both streams, or of the one with this name.
    Output(Option<String>),
}

impl Log {
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
pub(crate) fn of_log(entry: &str) -> Option<Value> {
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
        let ended = async { job_list::wait_for_end(&mut context.connect().await?, id).await };
        match ended.await {
            Ok(job) => event("end", &context.job(&job)),
            Err(error) => event("error", &Refusal::from(error).document(&path)),
        }
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
    let (path, flags) = match log {
        Log::Events => (EVENTS, 0),
        Log::Output(_) => (OUTPUT, WAIT_CREATE),
    };
    job_info::follow(&mut socket, id, path, flags).await?;
    Ok(stream::unfold(socket, |mut socket| async {
        let entry = job_info::next_event(&mut socket).await.ok()??;
        Some((entry, socket))
    }))
}
