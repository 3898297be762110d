//! Reads the logs of several pods, and merges them by the times of their lines.

use super::is_of_flux;
use crate::connection::message;
use crate::log_stream;
use crate::minicluster::MiniClusterRef;
use crate::output::print_stderr;
use anyhow::Result;
use jiff::Timestamp;
use kube::api::LogParams;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::ready;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

/// Number of logs that are read at the same time.
const AT_ONCE: usize = 64;
/// Lines of a log that wait for those of other logs.
const WAITING_LINES: usize = 256;

/// The log of a container, and which of its lines to print.
#[derive(Debug, Clone)]
pub(super) struct Log {
    pub rank: u32,
    pub pod: String,
    pub parameters: LogParams,
    /// How many of the lines that it has now are printed, counted from the end.
    pub tail: Option<usize>,
    /// Whether the lines of brokers and agents are printed.
    pub broker: bool,
}

/// A line without its newline, and with its time, whose format never changes, so times can be compared as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    pub time: String,
    pub rank: u32,
    pub pod: Arc<str>,
    pub text: Vec<u8>,
}

impl Log {
    /// Reads the log to its end, or follows it, and sends its lines. Returns whether it lacks its first line, which the
    /// agent writes, because the node has rotated the log.
    pub(super) async fn read(
        &self,
        target: &MiniClusterRef,
        lines: mpsc::Sender<Line>,
    ) -> Result<bool> {
        let pod: Arc<str> = self.pod.as_str().into();
        let mut parameters = self.parameters.clone();
        let mut lacks_beginning = None;
        let mut last = String::new();
        let mut line = |log_stream::Line { time, mut text }| {
            text.pop_if(|byte| *byte == b'\n');
            let shown = String::from_utf8_lossy(&text);
            lacks_beginning.get_or_insert_with(|| !shown.starts_with("flux-agent: "));
            let is_wanted = self.broker || !is_of_flux(&shown);
            is_wanted.then(|| Line { time, rank: self.rank, pod: Arc::clone(&pod), text })
        };
        if let Some(tail) = self.tail {
            let history = LogParams { follow: false, ..parameters.clone() };
            let mut kept = VecDeque::new();
            let keep = |read: log_stream::Line| {
                last.clone_from(&read.time);
                kept.extend(line(read));
                if kept.len() > tail {
                    kept.pop_front();
                }
                ready(true)
            };
            log_stream::follow(target.clone(), self.pod.clone(), history, keep).await?;
            for line in kept {
                // The receiver has no end before this task.
                let _ = lines.send(line).await;
            }
            if let Ok(last) = last.parse::<Timestamp>() {
                parameters.since_seconds = None;
                parameters.since_time = Timestamp::from_second(last.as_second()).ok();
            }
        }
        if self.tail.is_none() || parameters.follow {
            let pass_on = |read: log_stream::Line| {
                let line = (last.is_empty() || read.time > last).then(|| line(read)).flatten();
                let lines = &lines;
                async move {
                    match line {
                        Some(line) => lines.send(line).await.is_ok(),
                        None => true,
                    }
                }
            };
            log_stream::follow(target.clone(), self.pod.clone(), parameters, pass_on).await?;
        }
        Ok(lacks_beginning.unwrap_or_default())
    }

    /// Prints why this log could not be read.
    pub(super) fn print_error(&self, error: &anyhow::Error) {
        // For a container that has not started, the API server explains that it has no log.
        print_stderr(&format!("rank {} ({}): {}", self.rank, self.pod, message(error)));
    }
}

/// What is to be reported after the logs.
pub(super) struct End {
    /// How many logs could not be read.
    pub failed: usize,
    /// The ranks whose logs lack the beginning.
    pub rotated: Vec<String>,
}

/// Reads all logs, and passes their lines to `print` in order of time. Of up to [`AT_ONCE`] logs only a few lines are in
/// memory; of more, all are, so that the number of connections stays small.
pub(super) async fn merged(
    target: &MiniClusterRef,
    logs: Vec<Log>,
    mut print: impl FnMut(&Line),
) -> End {
    let capacity = if logs.len() <= AT_ONCE { WAITING_LINES } else { Semaphore::MAX_PERMITS };
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut readers: Vec<Reader> =
        logs.into_iter().map(|log| Reader::start(target, log, capacity, &places)).collect();
    let mut heads = BinaryHeap::new();
    for (index, reader) in readers.iter_mut().enumerate() {
        heads.extend(reader.lines.recv().await.map(|line| Reverse((line, index))));
    }
    while let Some(Reverse((line, index))) = heads.pop() {
        print(&line);
        heads.extend(readers[index].lines.recv().await.map(|line| Reverse((line, index))));
    }
    let mut end = End { failed: 0, rotated: Vec::new() };
    for Reader { log, done, .. } in readers {
        match done.await.unwrap_or_else(|error| Err(error.into())) {
            Ok(lacks_beginning) => {
                end.rotated.extend(lacks_beginning.then(|| log.rank.to_string()));
            }
            Err(error) => {
                log.print_error(&error);
                end.failed += 1;
            }
        }
    }
    end
}

/// A task that reads a log.
struct Reader {
    log: Log,
    lines: mpsc::Receiver<Line>,
    done: JoinHandle<Result<bool>>,
}

impl Reader {
    fn start(target: &MiniClusterRef, log: Log, capacity: usize, places: &Arc<Semaphore>) -> Self {
        let (sender, lines) = mpsc::channel(capacity);
        let (target, places, reader) = (target.clone(), Arc::clone(places), log.clone());
        let done = tokio::spawn(async move {
            let _place = places.acquire().await?;
            reader.read(&target, sender).await
        });
        Self { log, lines, done }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_in_order_of_time_and_rank() {
        let line = |rank, time: &str| Line {
            time: time.to_owned(),
            rank,
            pod: "pod".into(),
            text: Vec::new(),
        };
        let mut lines = [line(1, "00:01Z"), line(0, "00:01Z"), line(2, "00:00.5Z")];
        lines.sort();
        assert_eq!(lines.map(|line| line.rank), [2, 0, 1]);
    }
}
