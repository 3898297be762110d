//! The logs of containers, as an API server sends them.

use super::memory::refuse;
use super::refusal::{not_found, refused};
use super::selectors::words;
use super::server::Server;
use axum::body::Body as Answer;
use axum::response::Response;
use futures::stream;
use http::Uri;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// A log: its lines with their times, and whether the container has ended.
#[derive(Debug, Clone, Default)]
struct Log {
    lines: Vec<(String, Vec<u8>)>,
    has_ended: bool,
}

/// The logs of all containers, by `POD/CONTAINER`; the log of an earlier container of that name by
/// `POD/CONTAINER/previous`.
#[derive(Clone, Default)]
pub struct Logs(Arc<Mutex<BTreeMap<String, Arc<watch::Sender<Log>>>>>);

impl Logs {
    fn log(&self, name: &str) -> Arc<watch::Sender<Log>> {
        let mut logs = self.0.lock().unwrap();
        Arc::clone(
            logs.entry(name.to_owned()).or_insert_with(|| Arc::new(watch::Sender::default())),
        )
    }

    /// Adds lines to the log; each is one second younger than the one before it.
    pub fn write(&self, name: &str, lines: &[&[u8]]) {
        self.log(name).send_modify(|log| {
            for line in lines {
                let number = log.lines.len();
                let time =
                    format!("2026-01-01T00:{:02}:{:02}.500000000Z", number / 60, number % 60);
                log.lines.push((time, line.to_vec()));
            }
        });
    }

    /// Ends the log: who follows it reads the rest, and gets an end.
    pub fn end(&self, name: &str) {
        self.log(name).send_modify(|log| log.has_ended = true);
    }

    /// The answer to a request of a log; `None` for another request.
    pub(crate) fn answer(&self, server: &Server, uri: &Uri) -> Option<Response> {
        let path = uri.path().strip_suffix("/log")?;
        let query = words(uri.query().unwrap_or_default());
        let query = |name: &str| query.get(name).cloned();
        let pod = path.rsplit('/').next().unwrap_or_default();
        let Some(object) = server.get(path) else { return Some(refuse(&not_found())) };
        let container = query("container").unwrap_or_default();
        let states = object["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
        let Some(state) = states.iter().find(|it| it["name"] == *container) else {
            let message = format!("container {container} is not valid for pod {pod}");
            return Some(refuse(&refused(400, &message)));
        };
        if !state["state"]["waiting"].is_null() {
            let message = format!(
                "container {container:?} in pod {pod:?} is waiting to start: PodInitializing"
            );
            return Some(refuse(&refused(400, &message)));
        }
        let mut name = format!("{pod}/{container}");
        if query("previous").as_deref() == Some("true") {
            name.push_str("/previous");
        }
        let log = self.log(&name);
        let is_followed = query("follow").as_deref() == Some("true");
        let has_times = query("timestamps").as_deref() == Some("true");
        // Both times have whole seconds or fractions of nine digits, so that text in the order of time.
        let since = query("sinceTime")
            .map(|time| time.trim_end_matches('Z').to_owned())
            .unwrap_or_default();
        let tail = query("tailLines").and_then(|lines| lines.parse::<usize>().ok());
        let first = log.borrow().lines.len().saturating_sub(tail.unwrap_or(usize::MAX));
        let reader = (log.subscribe(), first);
        let body = stream::unfold(reader, move |(mut reader, mut next)| {
            let since = since.clone();
            async move {
                loop {
                    let log = reader.borrow_and_update().clone();
                    if let Some((time, text)) = log.lines.get(next) {
                        next += 1;
                        if *time < since {
                            continue;
                        }
                        let time = if has_times { format!("{time} ") } else { String::new() };
                        let line = [time.as_bytes(), text, b"\n"].concat();
                        return Some((Ok::<_, Infallible>(line), (reader, next)));
                    }
                    if log.has_ended || !is_followed || reader.changed().await.is_err() {
                        return None;
                    }
                }
            }
        });
        Some(Response::new(Answer::from_stream(body)))
    }
}
