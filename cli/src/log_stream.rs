//! Follows the log of a container over broken connections: each new connection continues where the last one ended.

use crate::error;
use crate::error::is_temporary;
use crate::minicluster::{MiniClusterRef, rank as rank_of, runner_state};
use crate::output::print_stderr;
use anyhow::{Context as _, Result, bail};
use futures::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, LogParams};
use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;
use tokio::time::sleep;

const PAUSE: Duration = Duration::from_millis(500);

/// How often a log is opened again in vain whose container has ended, or which the API server refuses.
const FAILURE_LIMIT: u32 = 20;

/// A line of a log with its newline, and the time at which the node received it. All times have the same format, so
/// they can be compared as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub time: String,
    pub text: Vec<u8>,
}

#[derive(Debug, Default)]
struct Progress {
    /// The time of the last line, and how many lines have that time: logs are reopened at a whole second.
    last: String,
    lines_of_last: usize,
    /// While a connection repeats known lines: how many lines with the time `last` it has repeated.
    repeated: Option<usize>,
    has_gap: bool,
    failures: u32,
}

impl Progress {
    fn reopen(&mut self) {
        self.repeated = (!self.last.is_empty()).then_some(0);
    }

    /// The time from which the next connection has to send lines: a whole second, as kube-core rounds to the nearest one.
    fn since(&self) -> Option<Timestamp> {
        let last: Timestamp = self.last.parse().ok()?;
        Timestamp::from_second(last.as_second()).ok()
    }

    /// Parses a line; `None` if an earlier connection has sent it.
    fn line(&mut self, line: &[u8]) -> Option<Line> {
        let space = line.iter().position(|byte| *byte == b' ');
        let (time, text) = line.split_at(space.map_or(0, |position| position + 1));
        let time = String::from_utf8_lossy(time).trim_end().to_owned();
        if let Some(repeated) = self.repeated {
            if time < self.last {
                return None;
            }
            if time == self.last && repeated < self.lines_of_last {
                self.repeated = Some(repeated + 1);
                return None;
            }
            // The node has already removed the last line that was read.
            self.has_gap |= repeated == 0;
            self.repeated = None;
        }
        if time > self.last {
            (self.last, self.lines_of_last) = (time.clone(), 1);
        } else if time == self.last {
            self.lines_of_last += 1;
        }
        self.failures = 0;
        Some(Line { time, text: text.to_vec() })
    }
}

enum Read {
    /// The API server has ended it.
    End,
    /// The API server has ended it in a line.
    InLine,
    /// It broke or timed out, for this reason.
    Broken(String),
    /// `take` wants no more lines.
    Unwanted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The container has ended, and all lines were read.
    Whole,
    /// `take` wants no more lines.
    Unwanted,
    /// The pod was deleted before all lines were read.
    PodGone,
}

/// Follows the log of a container to its end or, unless `parameters` follow it, reads what it has. `take` receives each
/// line and returns whether it wants more.
pub(crate) async fn follow<Taken: Future<Output = bool>>(
    target: MiniClusterRef,
    pod: String,
    parameters: LogParams,
    mut take: impl FnMut(Line) -> Taken,
) -> Result<Ending> {
    let api = target.connection.api::<Pod>();
    let mut parameters = LogParams { timestamps: true, ..parameters };
    let (mut progress, mut has_ended, mut was_open) =
        (Progress::default(), !parameters.follow, false);
    loop {
        let read = match api.log_stream(&pod, &parameters).await {
            Ok(log) => {
                was_open = true;
                read(log, &mut progress, has_ended, &mut take).await
            }
            // An API server that has just started may refuse what it allowed before.
            Err(error)
                if is_refusal(&error) && (!was_open || progress.failures >= FAILURE_LIMIT) =>
            {
                return Err(error).with_context(|| format!("follow the log of {pod}"));
            }
            Err(error) => Read::Broken(error::line(&error.into())),
        };
        match &read {
            Read::Unwanted => return Ok(Ending::Unwanted),
            Read::End if has_ended => return Ok(Ending::Whole),
            // The log of an ended container has no new lines to wait for.
            Read::Broken(error) if has_ended && progress.failures >= FAILURE_LIMIT => {
                bail!("read the rest of the log of {pod}: {error}");
            }
            Read::Broken(_) => progress.failures += 1,
            Read::End | Read::InLine => {}
        }
        match api.get_opt(&pod).await {
            Ok(None) if matches!(read, Read::End) => return Ok(Ending::Whole),
            Ok(None) => return Ok(Ending::PodGone),
            // If the container has ended, the next connection reads the whole log.
            Ok(Some(found)) => has_ended = is_over(&found, &parameters),
            Err(_) => {}
        }
        if !has_ended || progress.failures > 0 {
            sleep(PAUSE).await;
        }
        progress.reopen();
        if let Some(since) = progress.since() {
            (parameters.since_seconds, parameters.since_time) = (None, Some(since));
            parameters.tail_lines = None;
        }
    }
}

/// Passes each pod of `rank`, or of all ranks, to `start` until that returns true for it, and until `ended`. Returns what
/// `ended` has returned, and whether the pods could be listed after it: its watch may be ahead of that of the pods.
pub(crate) async fn over_pods<T>(
    target: &MiniClusterRef,
    rank: Option<u32>,
    ended: impl Future<Output = Result<T>>,
    mut start: impl FnMut(&Pod) -> Result<bool>,
) -> Result<(T, Result<()>)> {
    let mut started = HashSet::new();
    let mut add = |pod: &Pod| -> Result<()> {
        if !started.contains(&pod.name_any()) && start(pod)? {
            started.insert(pod.name_any());
        }
        Ok(())
    };
    let (mut pods, mut ended) = (pin!(target.pod_changes(rank)), pin!(ended));
    let end = loop {
        tokio::select! {
            // The watcher retries.
            Some(pod) = pods.next() => pod.map_or(Ok(()), |pod| add(&pod))?,
            end = &mut ended => break end?,
        }
    };
    let pods = target.pod_list().await;
    let listed = pods.and_then(|pods| {
        pods.iter().filter(|pod| rank.is_none() || rank_of(pod) == rank).try_for_each(add)
    });
    Ok((end, listed))
}

/// Whether the API server would refuse the same request again. A kubelet that has just started does not find the logs of
/// its pods.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if !is_temporary(status) && status.code != 404)
}

/// The log of a container as it is now.
pub(crate) async fn whole(api: &Api<Pod>, pod: &str, parameters: &LogParams) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut log = pin!(api.log_stream(pod, parameters).await?);
    log.read_to_end(&mut text).await.context("read the log to its end")?;
    Ok(text)
}

fn is_over(pod: &Pod, parameters: &LogParams) -> bool {
    let container = parameters.container.as_deref().unwrap_or_default();
    !parameters.follow
        || runner_state(pod, container).is_some_and(|state| state.terminated.is_some())
}

/// Reads a connection to its end. The last line of a log that `is_whole`, as its container has ended, may lack a newline.
async fn read<Taken: Future<Output = bool>>(
    log: impl AsyncBufRead,
    progress: &mut Progress,
    is_whole: bool,
    take: &mut impl FnMut(Line) -> Taken,
) -> Read {
    let (mut log, mut line) = (pin!(log), Vec::new());
    loop {
        line.clear();
        match log.read_until(b'\n', &mut line).await {
            Err(error) => return Read::Broken(error.to_string()),
            Ok(0) => return Read::End,
            // The next connection sends the whole line.
            Ok(_) if !is_whole && !line.ends_with(b"\n") => return Read::InLine,
            Ok(_) => {}
        }
        let Some(line) = progress.line(&line) else { continue };
        if std::mem::take(&mut progress.has_gap) {
            print_stderr("lines are missing here: the node has rotated the log");
        }
        if !take(line).await {
            return Read::Unwanted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines printed from `connections`, and whether there is a gap. The last connection reads the log to its end.
    fn printed(connections: &[&str]) -> (String, bool) {
        let (mut progress, mut text) = (Progress::default(), Vec::new());
        for (index, connection) in connections.iter().enumerate() {
            progress.reopen();
            let is_whole = index + 1 == connections.len();
            for line in connection.split_inclusive('\n') {
                let is_read = is_whole || line.ends_with('\n');
                let line = is_read.then(|| progress.line(line.as_bytes())).flatten();
                text.extend(line.into_iter().flat_map(|line| line.text));
            }
        }
        (String::from_utf8(text).unwrap(), progress.has_gap)
    }

    #[test]
    fn a_reopened_log_continues_where_it_broke() {
        let all = "10:01Z a\n10:02Z b\n10:02Z c\n10:02Z c\n10:03Z d d\n10:04Z e";
        let expected = ("a\nb\nc\nc\nd d\ne".to_owned(), false);
        for cut in 0..=all.len() {
            assert_eq!(printed(&[&all[..cut], all]), expected, "{cut}");
            let (second, third) = (cut / 2, cut);
            assert_eq!(printed(&[&all[..second], &all[..third], "", all]), expected, "{cut}");
        }
    }

    #[test]
    fn the_next_connection_repeats_the_last_line() {
        let mut progress = Progress::default();
        progress.line(b"2026-11-29T14:29:15.799Z a");
        assert_eq!(progress.since(), "2026-11-29T14:29:15Z".parse().ok());
    }

    #[test]
    fn rotated_lines_leave_a_gap() {
        assert_eq!(printed(&["1Z a\n2Z b\n", "2Z b\n3Z c\n"]), ("a\nb\nc\n".to_owned(), false));
        assert_eq!(printed(&["1Z a\n2Z b\n", "4Z d\n"]), ("a\nb\nd\n".to_owned(), true));
    }

    #[test]
    fn lines_keep_the_order_of_the_log() {
        assert_eq!(printed(&["2Z b\n1Z a\n3Z c\n"]).0, "b\na\nc\n");
        assert_eq!(printed(&["\n2Z \n"]).0, "\n\n");
    }
}
