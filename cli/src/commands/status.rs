//! `status`: shows state, ranks, timings, numbers of jobs and earlier runs of a MiniCluster.

mod runs;

use crate::error::misuse;
use crate::minicluster::{runner, targets};
use crate::object_format::ObjectFormat;
use crate::output::{age, bold, cells, coloured, or_dash, paint, table};
use crate::prelude::*;
use crate::retry::is_of_connection;
use anstyle::AnsiColor;
use anyhow::anyhow;
use flux_api::crd::TimelineEntry;
use futures::StreamExt as _;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::ContainerState;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

const WIDTH: usize = 40;

#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    names: NamesArgument,
    /// Print it again after each change until the run has ended
    #[arg(long, short, conflicts_with = "output")]
    watch: bool,
    #[command(flatten)]
    format: ObjectFormat,
}

impl Status {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        if self.format.is_wide() {
            return Ok(misuse(&anyhow!("wide is a format of `kubectl flux list` only")));
        }
        if self.format.is_text() {
            return Ok(self.names.each(&connection, async |target| self.show(&target).await).await);
        }
        let targets = targets(&connection, &self.names.names);
        let objects = try_join_all(targets.iter().map(MiniClusterRef::object)).await?;
        self.format.print(&objects, objects.len() > 1)?;
        Ok(ExitCode::SUCCESS)
    }

    async fn show(&self, target: &MiniClusterRef) -> Result<()> {
        let mut changes = Box::pin(target.changes());
        while let Some(change) = changes.next().await {
            let cluster = change?.ok_or_else(|| target.absent())?;
            let pods = match target.pods().await {
                // The next change comes when the API server is there again.
                Err(error) if self.watch && is_of_connection(&error) => continue,
                pods => pods?,
            };
            print(&page(&cluster, &pods, Timestamp::now()));
            if !self.watch || cluster.status.is_some_and(|status| status.is_over()) {
                break;
            }
        }
        Ok(())
    }
}

fn page(cluster: &MiniCluster, pods: &BTreeMap<u32, Pod>, now: Timestamp) -> String {
    let mut parts = vec![format!("{}\n", heading(cluster, now))];
    parts.extend(state_condition(cluster).map(|it| format!("{}: {}\n", it.reason, it.message)));
    parts.extend((!pods.is_empty()).then(|| format!("\n{}", ranks(cluster, pods, now))));
    let timeline = cluster.status.iter().map(|status| &status.timeline);
    parts.extend(timeline.filter(|phases| !phases.is_empty()).map(|it| format!("\n{}", bars(it))));
    let status = cluster.status.as_ref();
    let jobs = status.and_then(|status| status.result.as_ref()?.jobs.as_ref());
    parts.extend(jobs.map(|jobs| format!("\njobs: {}\n", runs::numbers(jobs))));
    let runs = status.map(runs::history).unwrap_or_default();
    parts.extend((!runs.is_empty()).then(|| format!("\n{runs}")));
    parts.concat()
}

fn heading(cluster: &MiniCluster, now: Timestamp) -> String {
    let status = cluster.status.as_ref();
    let state = coloured(cluster.state());
    let ready = status.map_or(0, |status| status.ready_brokers);
    let mut parts = vec![
        format!("{} {state}", bold(&cluster.name_any())),
        format!("{ready} of {} brokers online", cluster.size()),
    ];
    parts.extend(status.and_then(|it| it.exit_code).map(|code| format!("exit code {code}")));
    let start = status.and_then(|it| it.start_time.as_ref()).map(|start| start.0);
    let end = status.and_then(|it| it.completion_time.as_ref()).map(|end| end.0);
    parts.extend(match (start, end) {
        (Some(start), Some(end)) => Some(format!("took {}", age(start, end))),
        (Some(start), None) => Some(format!("for {}", age(start, now))),
        (None, _) => {
            cluster.creation_timestamp().map(|at| format!("created {} ago", age(at.0, now)))
        }
    });
    parts.join(", ")
}

/// The condition that explains the state: the source of `status.reason`, or `Suspended` if it is suspended.
pub(crate) fn state_condition(cluster: &MiniCluster) -> Option<&Condition> {
    let status = cluster.status.as_ref()?;
    let state = status.state?;
    let type_ = if state == State::Suspended { "Suspended" } else { state.summary_condition() };
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

pub(crate) fn summary(cluster: &MiniCluster) -> String {
    let name = cluster.name_any();
    let Some(state) = cluster.state() else {
        return format!("{name}: the operator has not processed it yet");
    };
    match state_condition(cluster) {
        Some(condition) => format!("{name}: {state}, {}", condition.message),
        None => format!("{name}: {state}"),
    }
}

/// A message of the operator without the command that it adds, which reads the log of the pod of this MiniCluster.
pub(crate) fn without_log_command(message: &str, name: &str) -> String {
    let parts = message.split_once("; its log: kubectl logs ").and_then(|(before, rest)| {
        Some((before, rest.split_once(&format!(" --container {name}"))?.1))
    });
    parts.map_or_else(|| message.to_owned(), |(before, after)| format!("{before}{after}"))
}

fn ranks(cluster: &MiniCluster, pods: &BTreeMap<u32, Pod>, now: Timestamp) -> String {
    let rows = pods.iter().map(|(rank, pod)| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let restarts = runner(pod, &cluster.name_any()).map_or(0, |status| status.restart_count);
        vec![
            rank.to_string(),
            pod_state(cluster, pod),
            restarts.to_string(),
            or_dash(node),
            pod.creation_timestamp().map(|at| age(at.0, now)).unwrap_or_default(),
            pod.name_any(),
        ]
    });
    table(&["RANK", "STATE", "RESTARTS", "NODE", "AGE", "POD"], rows)
}

pub(crate) fn pod_state(cluster: &MiniCluster, pod: &Pod) -> String {
    let yellow = |text: &str| paint(AnsiColor::Yellow, text);
    let green = |text: &str| paint(AnsiColor::Green, text);
    if pod.metadata.deletion_timestamp.is_some() {
        return yellow("stopping");
    }
    let status = runner(pod, &cluster.name_any());
    let is_online = status.is_some_and(|status| status.ready);
    match status.and_then(|status| status.state.as_ref()) {
        Some(ContainerState { terminated: Some(end), .. }) if end.exit_code == 0 => green("ended"),
        Some(ContainerState { terminated: Some(end), .. }) => {
            let reason = end.reason.as_deref().filter(|reason| *reason != "Error");
            let reason = reason.map(|reason| format!(" {reason}")).unwrap_or_default();
            paint(AnsiColor::Red, &format!("ended {}{reason}", end.exit_code))
        }
        Some(ContainerState { running: Some(_), .. }) if is_online => green("online"),
        Some(ContainerState { running: Some(_), .. }) => yellow("starting"),
        Some(ContainerState { waiting: Some(waiting), .. }) => {
            yellow(waiting.reason.as_deref().unwrap_or("waiting"))
        }
        Some(_) | None => {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            yellow(phase.unwrap_or("Pending"))
        }
    }
}

fn bars(timeline: &[TimelineEntry]) -> String {
    let end = |phase: &TimelineEntry| phase.start_milliseconds + phase.duration_milliseconds;
    let whole = timeline.iter().map(end).max().unwrap_or_default().max(1);
    let rows = timeline.iter().map(|phase| {
        let (before, length) =
            cells(phase.start_milliseconds, phase.duration_milliseconds, whole, WIDTH);
        let bar = format!("{}{}", " ".repeat(before), "▇".repeat(length));
        vec![phase.name.clone(), milliseconds(phase.duration_milliseconds), bar]
    });
    table(&["PHASE", "TOOK", ""], rows)
}

pub(crate) fn milliseconds(count: i64) -> String {
    format!("{}.{:03} s", count / 1000, count % 1000)
}

#[cfg(test)]
#[test]
fn messages_without_the_command_that_reads_a_log() {
    let of_operator = include_str!("../../../operator/src/controller/cases/states/results.txt");
    let messages = of_operator.lines().filter(|line| line.contains("kubectl logs"));
    let shortened: Vec<_> = messages.map(|it| without_log_command(it, "hello")).collect();
    let expected = "  > Failed True CommandFailed: command exited with code 7".to_owned();
    assert!(shortened.contains(&expected), "{shortened:?}");
    assert!(!shortened.iter().any(|message| message.contains("logs")), "{shortened:?}");
    assert_eq!(without_log_command("it is Failed", "hello"), "it is Failed");
}
