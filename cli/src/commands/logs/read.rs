//! Reads the logs of several pods and merges them by the times of their lines, or follows them.

use crate::commands::status::summary;
use crate::commands::wait::{Goal, end};
use crate::error::reason;
use crate::log_stream::{self, Ending, over_pods};
use crate::minicluster::has_log;
use crate::prelude::*;
use futures::future::join_all;
use kube::api::LogParams;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

const AT_ONCE: usize = 64;
const WAITING_LINES: usize = 256;

#[derive(Debug)]
pub(super) struct Log {
    pub rank: u32,
    pub pod: String,
    pub parameters: LogParams,
    pub tail: Option<usize>,
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
    /// Reads the log to its end, or follows it, and sends its lines. Returns the rank if the log lacks its first line,
    /// which the agent writes, because the node has rotated the log.
    pub(super) async fn read(
        &self,
        target: &MiniClusterRef,
        lines: mpsc::Sender<Line>,
    ) -> Result<Option<u32>> {
        let pod: Arc<str> = self.pod.as_str().into();
        let (mut lacks_beginning, mut last) = (None, VecDeque::new());
        let pass_on = |log_stream::Line { time, mut text }| {
            text.pop_if(|byte| *byte == b'\n');
            let shown = String::from_utf8_lossy(&text);
            lacks_beginning.get_or_insert_with(|| !shown.starts_with("flux-agent: "));
            let is_wanted = self.broker || !is_hidden(&shown);
            let mut line =
                is_wanted.then(|| Line { time, rank: self.rank, pod: Arc::clone(&pod), text });
            if let Some(tail) = self.tail {
                last.extend(line.take());
                last.drain(..last.len().saturating_sub(tail));
            }
            let lines = &lines;
            async move {
                match line {
                    Some(line) => lines.send(line).await.is_ok(),
                    None => true,
                }
            }
        };
        let parameters = self.parameters.clone();
        let ending =
            log_stream::follow(target.clone(), self.pod.clone(), parameters, pass_on).await?;
        ensure!(ending != Ending::PodGone, "the pod is gone, and the rest of its log with it");
        for line in last {
            lines.send(line).await?;
        }
        Ok(lacks_beginning.unwrap_or_default().then_some(self.rank))
    }

    pub(super) fn print_error(&self, error: &anyhow::Error) {
        // For a container that has not started, the API server explains that it has no log.
        print_stderr(&format!("rank {} ({}): {}", self.rank, self.pod, reason(error)));
    }
}

/// Reads all logs, passes their lines to `print` in order of time, and returns what [`Log::read`] has returned, `None` for
/// a log that could not be read. Of up to [`AT_ONCE`] logs only a few lines are in memory; of more, all are, so that the
/// number of connections stays small.
pub(super) async fn merged(
    target: &MiniClusterRef,
    logs: Vec<Log>,
    mut print: impl FnMut(&Line),
) -> Vec<Option<Option<u32>>> {
    let capacity = if logs.len() <= AT_ONCE { WAITING_LINES } else { Semaphore::MAX_PERMITS };
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let (mut tasks, mut all_lines) = (Vec::new(), Vec::new());
    for log in logs {
        let (sender, lines) = mpsc::channel(capacity);
        let (target, places) = (target.clone(), Arc::clone(&places));
        all_lines.push(lines);
        tasks.push(tokio::spawn(async move {
            let _place = places.acquire().await;
            log.read(&target, sender).await.inspect_err(|error| log.print_error(error)).ok()
        }));
    }
    let mut heads = BinaryHeap::new();
    for (index, lines) in all_lines.iter_mut().enumerate() {
        heads.extend(lines.recv().await.map(|line| Reverse((line, index))));
    }
    while let Some(Reverse((line, index))) = heads.pop() {
        print(&line);
        heads.extend(all_lines[index].recv().await.map(|line| Reverse((line, index))));
    }
    let ends = join_all(tasks).await;
    ends.into_iter().map(|end| end.ok().flatten()).collect()
}

/// Prints the lines of all pods, also of later ones, until the MiniCluster has ended or is gone. `log_of` returns the log
/// of a pod, if it is wanted.
pub(super) async fn follow(
    target: &MiniClusterRef,
    log_of: impl Fn(&Pod) -> Result<Option<Log>>,
    print: impl Fn(&Line),
) -> Result<()> {
    // A refusal ends the command here; the watch of the pods would repeat its requests.
    target.pod_list().await?;
    let (sender, mut lines) = mpsc::channel(WAITING_LINES);
    let printing = async {
        while let Some(line) = lines.recv().await {
            print(&line);
        }
    };
    let reading = async move {
        // Each task returns whether it could read its log.
        let mut tasks = JoinSet::new();
        let start = |pod: &Pod| {
            let Some(log) = log_of(pod)? else { return Ok(true) };
            if !has_log(pod, log.parameters.container.as_deref().unwrap_or_default()) {
                return Ok(false);
            }
            let (target, lines) = (target.clone(), sender.clone());
            tasks.spawn(async move {
                let read = log.read(&target, lines).await;
                read.inspect_err(|error| log.print_error(error)).is_ok()
            });
            Ok(true)
        };
        // `run` deletes what it has made once that has ended.
        let has_ended = |cluster: Option<MiniCluster>| match cluster {
            None => Ok(Some(())),
            cluster => Ok(end(target, &Goal::End, cluster)?.map(drop)),
        };
        let ended = over_pods(target, None, target.until(has_ended), start).await;
        drop(sender);
        // Containers end after the run or, if they are deleted, before that is seen.
        let read = tasks.join_all().await;
        ended?.1.map(|()| read.contains(&true))
    };
    let (has_read, ()) = tokio::join!(reading, printing);
    ensure!(has_read?, "no log could be read; {}", summary(&target.get().await?));
    Ok(())
}

/// Whether the line is printed only with `--broker`. What an agent reports to be wrong is always printed.
pub(crate) fn is_hidden(line: &str) -> bool {
    let is_fault = ["flux-agent: error: ", "flux-agent: warning: "];
    is_of_flux(line) && !is_fault.iter().any(|start| line.starts_with(start))
}

/// Whether a line comes from an agent or from a module of a broker (`broker.info[0]: ...`), not from a command.
pub(crate) fn is_of_flux(line: &str) -> bool {
    const LEVELS: [&str; 8] =
        ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];
    let begins = |start| line.starts_with(start);
    // Without a terminal Flux writes the level as systemd does, e.g. `<6>`.
    let text =
        line.strip_prefix('<').and_then(|line| line.split_once('>')).map_or(line, |(_, text)| text);
    let module = text.split_once("]: ").and_then(|(name, _)| name.split_once('['));
    let module = module.and_then(|(name, rank)| Some((name.rsplit_once('.')?, rank)));
    let is_of_module = module.is_some_and(|((module, level), rank)| {
        LEVELS.contains(&level)
            && module.chars().all(|it| it.is_ascii_alphanumeric() || it == '-' || it == '_')
            && rank.chars().all(|digit| digit.is_ascii_digit())
    });
    is_of_module || begins("flux-agent: ") || begins("FLUXTIME ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_flux_and_of_commands_differ() {
        for line in [
            "<6>broker.info[0]: rc1-success: init->quorum 1.90516s",
            "sched-simple.err[12]: no",
            "flux-agent: starting the broker",
        ] {
            assert!(is_of_flux(line) && is_hidden(line), "{line}");
        }
        for line in
            ["hello", "a.info: x", "matrix.row[3]: 1.0", "my file.info[0]: x", "<b>bold</b>", ""]
        {
            assert!(!is_of_flux(line) && !is_hidden(line), "{line}");
        }
        for line in ["flux-agent: error: no", "flux-agent: warning: no"] {
            assert!(is_of_flux(line) && !is_hidden(line), "{line}");
        }
    }
}
