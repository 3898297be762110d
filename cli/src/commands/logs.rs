//! `logs`: prints the output of all ranks in order of time.

mod read;

use super::status::summary;
use crate::duration::seconds;
use crate::minicluster::{rank, runner};
use crate::output::{paint, print_line, reader_gone};
use crate::prelude::*;
use anstyle::AnsiColor::{self, Blue, BrightBlack, Cyan, Green, Magenta, Yellow};
use clap::ValueEnum;
use kube::api::LogParams;
use read::{Line, Log};
pub(crate) use read::{is_hidden, is_of_flux};

const COLOURS: [AnsiColor; 6] = [Cyan, Green, Magenta, Yellow, Blue, BrightBlack];

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
    /// Print only lines that are not older than this: `90s`, `5m`, `1h30m`
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    since: Option<i64>,
    /// Print only lines since this time: `2026-01-31T12:00:00Z`
    #[arg(long, value_name = "TIME", conflicts_with = "since")]
    since_time: Option<Timestamp>,
    /// Print only the last lines of each rank, this many
    #[arg(long, value_name = "LINES")]
    tail: Option<usize>,
    /// Print the output of the container's run before this one, or of the pod before this one
    #[arg(long, short, conflicts_with = "follow")]
    previous: bool,
    /// Also print the lines of brokers and agents
    #[arg(long)]
    broker: bool,
    /// Print the output of this container of the pods: a sidecar or an init container
    #[arg(long, short, value_name = "NAME")]
    container: Option<String>,
    /// Print the time of each line
    #[arg(long)]
    timestamps: bool,
    /// Format of the lines [default: text with ranks]
    #[arg(long, short, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The lines as they are, without ranks.
    Raw,
    /// An object for each line: time, rank, pod, line.
    Json,
}

impl Logs {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<()> {
        let target = self.name.target(connection);
        let cluster = target.get().await?;
        self.check_ranks(&cluster)?;
        if self.follow {
            let log_of = |pod: &Pod| self.log(&target, pod);
            tokio::select! {
                followed = read::follow(&target, log_of, |line| self.print(line)) => followed,
                () = reader_gone() => Ok(()),
            }
        } else {
            self.read(&target, &cluster).await
        }
    }

    fn check_ranks(&self, cluster: &MiniCluster) -> Result<()> {
        let size = cluster.spec.max_size.unwrap_or_default().max(cluster.spec.size);
        let absent = self.rank.iter().find(|rank| i64::from(**rank) >= i64::from(size));
        let Some(rank) = absent else { return Ok(()) };
        let last = size - 1;
        bail!("{} has no rank {rank}; it has the ranks 0 to {last}", self.name.name);
    }

    fn log(&self, target: &MiniClusterRef, pod: &Pod) -> Result<Option<Log>> {
        let is_wanted = |rank: &u32| self.rank.is_empty() || self.rank.contains(rank);
        let Some(rank) = rank(pod).filter(is_wanted) else { return Ok(None) };
        let container = self.container.as_ref().unwrap_or(&target.name);
        let names = container_names(pod);
        ensure!(
            names.contains(&container.as_str()),
            "the pods of {} have no container {container}; they have {}",
            target.name,
            names.join(", ")
        );
        let parameters = LogParams {
            container: Some(container.clone()),
            follow: self.follow,
            since_seconds: self.since,
            since_time: self.since_time,
            tail_lines: self.tail.filter(|_| self.follow).and_then(|lines| lines.try_into().ok()),
            ..LogParams::default()
        };
        let tail = self.tail.filter(|_| !self.follow);
        let (pod, broker) = (pod.name_any(), self.broker);
        Ok(Some(Log { rank, pod, parameters, tail, broker }))
    }

    /// The logs to read. With `--previous`, those of the containers' previous runs or, if a container has only run
    /// once, of the pod that the rank had before.
    fn logs(&self, target: &MiniClusterRef, pods: Vec<Pod>) -> Result<Vec<Log>> {
        let (mut newest, mut before) = (BTreeMap::new(), BTreeMap::new());
        for (rank, pod) in pods.into_iter().filter_map(|pod| Some((rank(&pod)?, pod))) {
            before.extend(newest.insert(rank, pod).map(|pod| (rank, pod)));
        }
        let container = self.container.as_ref().unwrap_or(&target.name);
        let logs = newest.iter().filter_map(|(rank, pod)| {
            let has_run = runner(pod, container).is_some_and(|it| it.restart_count > 0);
            let previous = self.previous && has_run;
            let pod = if self.previous && !has_run { before.get(rank)? } else { pod };
            let mut log = self.log(target, pod).transpose()?;
            if let Ok(log) = &mut log {
                log.parameters.previous = previous;
            }
            Some(log)
        });
        logs.collect()
    }

    async fn read(&self, target: &MiniClusterRef, cluster: &MiniCluster) -> Result<()> {
        let pods = target.pod_list().await?;
        ensure!(!pods.is_empty(), "there are no pods to read logs of; {}", summary(cluster));
        let logs = self.logs(target, pods)?;
        ensure!(!self.previous || !logs.is_empty(), "no rank of {} has run before", target.name);
        for rank in self.rank.iter().filter(|rank| logs.iter().all(|log| log.rank != **rank)) {
            print_stderr(&format!("rank {rank} has no pod"));
        }
        let ends = read::merged(target, logs, |line| self.print(line)).await;
        let rotated: Vec<_> = ends.iter().flatten().flatten().map(ToString::to_string).collect();
        let is_part = self.since.is_some() || self.since_time.is_some() || self.tail.is_some();
        let is_other = self.container.is_some() || cluster.spec.logging.quiet;
        if !is_part && !is_other && !rotated.is_empty() {
            let ranks = rotated.join(", ");
            print_stderr(&format!(
                "the first lines of these ranks are missing: {ranks}; the node has rotated their logs (containerLogMaxSize of the kubelet)"
            ));
        }
        ensure!(ends.iter().any(Option::is_some), "no log could be read; {}", summary(cluster));
        Ok(())
    }

    fn print(&self, line: &Line) {
        let Line { time, rank, pod, text } = line;
        if self.output == Some(Format::Json) {
            let text = String::from_utf8_lossy(text);
            return print(
                &json!({ "time": time, "rank": rank, "pod": **pod, "line": text }).to_string(),
            );
        }
        let label = self.output.map_or_else(|| format!("{} ", label(*rank)), |_| String::new());
        let time = if self.timestamps { format!("{time} ") } else { String::new() };
        print_line(&format!("{label}{time}"), text);
    }
}

pub(crate) fn label(rank: u32) -> String {
    paint(COLOURS[rank as usize % COLOURS.len()], &format!("{rank:>3} |"))
}

fn container_names(pod: &Pod) -> Vec<&str> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let own = spec.containers.iter().map(|it| it.name.as_str());
    let init = spec.init_containers.iter().flatten().map(|it| it.name.as_str());
    let later = spec.ephemeral_containers.iter().flatten().map(|it| it.name.as_str());
    own.chain(init).chain(later).collect()
}
