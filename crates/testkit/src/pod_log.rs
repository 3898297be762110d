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

/// A log: its lines with their times and newlines, and whether the container has ended.
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
        Arc::clone(logs.entry(name.to_owned()).or_default())
    }

    /// Adds lines to the log; each is one second younger than the one before it.
    pub fn write(&self, name: &str, lines: &[&[u8]]) {
        for line in lines {
            self.write_part(name, &[line, &b"\n"[..]].concat());
        }
    }

    /// Adds a line as it is: the last one of a log may lack its newline.
    pub fn write_part(&self, name: &str, line: &[u8]) {
        self.log(name).send_modify(|log| {
            let number = log.lines.len();
            let time = format!("2026-01-01T00:{:02}:{:02}.500000000Z", number / 60, number % 60);
            log.lines.push((time, line.to_vec()));
        });
    }

    /// Ends the log: its readers get the rest, and an end.
    pub fn end(&self, name: &str) {
        self.log(name).send_modify(|log| log.has_ended = true);
    }

    /// The answer to a request of a log; `None` for another request.
    pub(crate) fn answer(&self, server: &Server, uri: &Uri) -> Option<Response> {
        let path = uri.path().strip_suffix("/log")?;
        let query = words(uri.query().unwrap_or_default());
        let query = |name: &str| query.get(name).cloned();
        let is_set = |name: &str| query(name).as_deref() == Some("true");
        let refused = |message: String| Some(refuse(&refused(400, &message)));
        let pod = path.rsplit('/').next().unwrap_or_default();
        let Some(object) = server.get(path) else { return Some(refuse(&not_found())) };
        let container = query("container").unwrap_or_default();
        let states = object["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
        let Some(state) = states.iter().find(|it| it["name"] == *container) else {
            return refused(format!("container {container} is not valid for pod {pod}"));
        };
        if !state["state"]["waiting"].is_null() {
            return refused(format!(
                "container {container:?} in pod {pod:?} is waiting to start: PodInitializing"
            ));
        }
        let previous = if is_set("previous") { "/previous" } else { "" };
        let log = self.log(&format!("{pod}/{container}{previous}"));
        let (is_followed, has_times) = (is_set("follow"), is_set("timestamps"));
        // Both times have whole seconds or fractions of nine digits, so that text in the order of time.
        let since = query("sinceTime").unwrap_or_default().trim_end_matches('Z').to_owned();
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
                        let line = [time.as_bytes(), text].concat();
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
