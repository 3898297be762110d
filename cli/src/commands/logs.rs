//! `logs`: prints the output of all ranks in order of time.

use super::status::summary;
use super::wait::{Goal, until};
use crate::connection::Connection;
use crate::log_stream;
use crate::minicluster::{MiniClusterRef, NameArgument, rank, runner_state};
use crate::output::{paint, print, print_stderr};
use anstyle::AnsiColor::{self, Blue, BrightBlack, Cyan, Green, Magenta, Yellow};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use futures::{StreamExt as _, stream};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::LogParams;
use std::collections::HashSet;
use std::pin::pin;
use tokio::sync::mpsc;

/// The colours of the ranks; they repeat after the last one.
const COLOURS: [AnsiColor; 6] = [Cyan, Green, Magenta, Yellow, Blue, BrightBlack];
/// Number of logs that are read at the same time.
const AT_ONCE: usize = 16;

#[derive(Debug, Args)]
pub(crate) struct Logs {
    #[command(flatten)]
    name: NameArgument,
    /// Continue to print new lines until the run has ended
    #[arg(long, short)]
    follow: bool,
    /// Print only the output of these ranks
    #[arg(long, short, value_name = "RANK", value_delimiter = ',')]
    rank: Vec<u32>,
    /// Print only lines that are not older than this: `90s`, `5m`, `2h`
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    since: Option<i64>,
    /// Also print the lines of brokers and agents
    #[arg(long)]
    broker: bool,
    /// Print the output of this container of the pods: a sidecar or an init container
    #[arg(long, short, value_name = "NAME")]
    container: Option<String>,
    /// Print the time of each line
    #[arg(long)]
    timestamps: bool,
}

/// Reads `90s`, `5m` or `1h30m`.
fn seconds(text: &str) -> Result<i64> {
    let duration = text.parse().ok().map(|duration: SignedDuration| duration.as_secs());
    let seconds = duration.filter(|seconds| *seconds > 0);
    seconds.with_context(|| format!("{text:?} is not a duration: write e.g. 90s, 5m or 2h"))
}

/// A line of a log with its time, whose format never changes, so times can be compared as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    time: String,
    rank: u32,
    text: String,
}

impl Line {
    fn new(rank: u32, line: &str) -> Self {
        let (time, text) = line.split_once(' ').unwrap_or(("", line));
        Self { time: time.to_owned(), rank, text: text.to_owned() }
    }
}

impl Logs {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<()> {
        let target = self.name.target(connection);
        let pods = target.pods().await?;
        if pods.is_empty() && !self.follow {
            bail!("there are no pods to read logs of; {}", summary(&target.get().await?));
        }
        if self.follow {
            self.follow(&target).await?;
        } else {
            self.read(&target, pods.into_values()).await?;
        }
        Ok(())
    }

    fn wants(&self, rank: u32) -> bool {
        self.rank.is_empty() || self.rank.contains(&rank)
    }

    fn parameters(&self, target: &MiniClusterRef) -> LogParams {
        LogParams {
            container: Some(self.container.clone().unwrap_or_else(|| target.name.clone())),
            follow: self.follow,
            since_seconds: self.since,
            timestamps: true,
            ..LogParams::default()
        }
    }

    /// Prints the logs as they are, merged by time.
    async fn read(&self, target: &MiniClusterRef, pods: impl Iterator<Item = Pod>) -> Result<()> {
        let api = target.connection.api::<Pod>();
        let parameters = self.parameters(target);
        let pods =
            pods.filter_map(|pod| Some((rank(&pod)?, pod))).filter(|(rank, _)| self.wants(*rank));
        let logs = stream::iter(pods).map(async |(rank, pod)| {
            let log = api.logs(&pod.name_any(), &parameters).await;
            (rank, pod, log)
        });
        let logs: Vec<_> = logs.buffer_unordered(AT_ONCE).collect().await;
        let (mut lines, mut rotated) = (Vec::new(), Vec::new());
        for (rank, pod, log) in logs {
            match log {
                Ok(log) => {
                    rotated.extend(lacks_beginning(&log).then(|| rank.to_string()));
                    lines.extend(log.lines().map(|line| Line::new(rank, line)));
                }
                // For a container that has not started, the API server explains that it has no log.
                Err(error) => {
                    print_stderr(&format!("rank {rank} ({}): {}", pod.name_any(), message(&error)));
                }
            }
        }
        lines.sort();
        for line in &lines {
            self.print(line);
        }
        let is_whole = self.container.is_some() || self.since.is_some() || rotated.is_empty();
        if !is_whole && !target.get().await?.spec.logging.quiet {
            let ranks = rotated.join(", ");
            print_stderr(&format!(
                "the first lines of these ranks are missing: {ranks}; the node has rotated their logs (containerLogMaxSize of the kubelet)"
            ));
        }
        Ok(())
    }

    /// Prints new lines of all pods, also of later ones, until the MiniCluster has ended.
    async fn follow(&self, target: &MiniClusterRef) -> Result<()> {
        let (sender, mut lines) = mpsc::channel(1000);
        let reading = tokio::spawn(follow_pods(
            target.clone(),
            self.parameters(target),
            self.rank.clone(),
            sender,
        ));
        while let Some(line) = lines.recv().await {
            self.print(&line);
        }
        reading.await.context("follow the logs")?
    }

    fn print(&self, line: &Line) {
        if !self.broker && is_of_flux(&line.text) {
            return;
        }
        let time = if self.timestamps { format!("{} ", line.time) } else { String::new() };
        print(&format!("{} {time}{}", label(line.rank), line.text));
    }
}

/// The prefix of the lines of this rank.
pub(crate) fn label(rank: u32) -> String {
    paint(COLOURS[rank as usize % COLOURS.len()], &format!("{rank:>3} |"))
}

/// The message of the API server or, if it did not answer, of the client.
fn message(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error { status.message.clone() } else { error.to_string() }
}

/// Follows the log of each pod of the Job, from the start of its container until the MiniCluster has ended.
async fn follow_pods(
    target: MiniClusterRef,
    parameters: LogParams,
    ranks: Vec<u32>,
    lines: mpsc::Sender<Line>,
) -> Result<()> {
    let mut pods = pin!(target.pod_changes(None));
    let mut ended = pin!(until(&target, Goal::End));
    let (mut followed, mut tasks) = (HashSet::new(), tokio::task::JoinSet::new());
    loop {
        let pod = tokio::select! {
            pod = pods.next() => match pod {
                Some(Ok(pod)) => pod,
                // The watcher retries. If the error persists, the watch of the MiniCluster returns it.
                Some(Err(_)) => continue,
                None => break,
            },
            end = &mut ended => {
                end?;
                break;
            }
        };
        let Some(rank) = rank(&pod).filter(|rank| ranks.is_empty() || ranks.contains(rank)) else {
            continue;
        };
        let container = parameters.container.as_deref().unwrap_or_default();
        let has_log = container != target.name
            || runner_state(&pod, container).is_some_and(|it| it.waiting.is_none());
        if has_log && followed.insert(pod.name_any()) {
            let (target, parameters, lines) = (target.clone(), parameters.clone(), lines.clone());
            tasks.spawn(follow_pod(target, pod.name_any(), rank, parameters, lines));
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.context("follow a log")??;
    }
    Ok(())
}

async fn follow_pod(
    target: MiniClusterRef,
    pod: String,
    rank: u32,
    parameters: LogParams,
    lines: mpsc::Sender<Line>,
) -> Result<()> {
    let pass_on = move |log_stream::Line { time, text }| {
        let text = String::from_utf8_lossy(&text).trim_end_matches(['\n', '\r']).to_owned();
        let lines = lines.clone();
        async move { lines.send(Line { time, rank, text }).await.is_ok() }
    };
    log_stream::follow(target, pod, parameters, pass_on).await.map(drop)
}

/// Whether the log of a runner lacks its first line, which the agent writes, because the node has rotated the log.
fn lacks_beginning(log: &str) -> bool {
    let first = log.lines().next();
    first.is_some_and(|line| !Line::new(0, line).text.starts_with("flux-agent: "))
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
            assert!(is_of_flux(line), "{line}");
        }
        for line in
            ["hello", "a.info: x", "matrix.row[3]: 1.0", "my file.info[0]: x", "<b>bold</b>", ""]
        {
            assert!(!is_of_flux(line), "{line}");
        }
    }

    #[test]
    fn lines_are_in_order_of_time_and_rank() {
        let line = |rank, text| Line::new(rank, text);
        let mut lines = [
            line(1, "2026-01-01T00:00:01Z b"),
            line(0, "2026-01-01T00:00:01Z c"),
            line(2, "2026-01-01T00:00:00.5Z a"),
        ];
        lines.sort();
        assert_eq!(lines.map(|line| line.text), ["a", "c", "b"]);
    }

    #[test]
    fn rotated_logs_begin_in_the_middle() {
        let begin = "2026-01-01T00:00:01Z flux-agent: run Flux as user flux\n";
        let rest = "2026-01-01T00:00:02Z line 77793\n";
        let lacks = [&format!("{begin}{rest}"), rest, ""].map(lacks_beginning);
        assert_eq!(lacks, [false, true, false]);
    }

    #[test]
    fn durations_have_units() {
        let read = ["90s", "5m", "2h", "1h30m"].map(|text| seconds(text).unwrap());
        assert_eq!(read, [90, 300, 7200, 5400]);
        for text in ["", "7", "5x", "-1s", "0s", "99999999999999999h"] {
            assert!(seconds(text).unwrap_err().to_string().contains("not a duration"), "{text}");
        }
    }
}
