//! `trace`: shows on one time axis when each rank started, what it did, and when it ended.

mod chart;
mod text;

use crate::connection::Connection;
use crate::error::line;
use crate::minicluster::{MiniClusterRef, NameArgument, agent, is_running};
use crate::output::{FormatArgument, print, print_stderr};
use crate::rank_pod::{agent_report, over_ranks};
use anyhow::{Context as _, Result, ensure};
use chart::chart;
use clap::Args;
use flux_contract::Phase;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::IsTerminal as _;

/// Width of the output without a terminal.
const COLUMNS: usize = 120;

#[derive(Debug, Args)]
#[command(
    after_help = "The time starts at the creation of the MiniCluster. Kubernetes records whole seconds; agents record \
their phases in milliseconds from the start of their container. Pods that are gone are not shown."
)]
pub(crate) struct Trace {
    #[command(flatten)]
    name: NameArgument,
    #[command(flatten)]
    format: FormatArgument,
}

impl Trace {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<()> {
        let target = self.name.target(connection);
        let cluster = target.get().await?;
        let pods = target.pods().await?;
        ensure!(
            !pods.is_empty(),
            "{0} has no pods to trace: `kubectl flux status {0}` shows the phases of its run",
            target.name
        );
        let reports = reports(&target, pods.clone(), &agent(&cluster)).await;
        let chart = chart(&cluster, &pods, &reports, Timestamp::now());
        let names = pods.values().map(|pod| format!("pod/{}", pod.name_any()));
        if !self.format.print(&chart, names)? {
            print(&text::text(&chart, columns()));
        }
        Ok(())
    }
}

/// The phases of the running agents, by rank. If one does not answer, its rank is printed and the others are shown.
async fn reports(
    target: &MiniClusterRef,
    mut pods: BTreeMap<u32, Pod>,
    agent: &str,
) -> BTreeMap<u32, Vec<Phase>> {
    pods.retain(|_, pod| is_running(pod, &target.name));
    let reports = over_ranks(pods, async |rank, pod| {
        let phases = agent_report(target, &pod.name_any(), agent).await.and_then(|mut report| {
            let phases = report.get_mut("phases").map_or_else(|| json!([]), Value::take);
            serde_json::from_value(phases).context("read the phases")
        });
        let print = |error: &anyhow::Error| {
            let error = line(error);
            print_stderr(&format!("kubectl flux: the phases of rank {rank} are missing: {error}"));
        };
        Some((rank, phases.inspect_err(print).ok()?))
    });
    reports.await.into_iter().flatten().collect()
}

fn columns() -> usize {
    let size = std::io::stdout().is_terminal().then(crossterm::terminal::size);
    size.and_then(Result::ok).map_or(COLUMNS, |(columns, _)| columns.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flux_api::crd::MiniCluster;

    fn at(second: i64) -> Value {
        json!(Timestamp::from_second(1_000_000 + second).unwrap())
    }

    fn pod(rank: u32, created: i64, status: &Value) -> (u32, Pod) {
        let pod = json!({
            "metadata": { "name": format!("hello-{rank}-abcde"), "creationTimestamp": at(created) },
            "spec": { "nodeName": format!("node-{rank}"), "containers": [] },
            "status": status,
        });
        (rank, serde_json::from_value(pod).unwrap())
    }

    fn status(scheduled: i64, state: &Value) -> Value {
        json!({
            "conditions": [
                { "type": "PodScheduled", "status": "True", "lastTransitionTime": at(scheduled) },
            ],
            "containerStatuses": [
                { "name": "hello", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state },
            ],
        })
    }

    fn phases(all: &[(&str, u64, u64)]) -> Vec<Phase> {
        let phase = |(name, start_milliseconds, duration_milliseconds): &(&str, u64, u64)| Phase {
            name: (*name).to_owned(),
            start_milliseconds: *start_milliseconds,
            duration_milliseconds: *duration_milliseconds,
        };
        all.iter().map(phase).collect()
    }

    /// One rank of each kind: ended, running, killed without a message, starting, waiting for a node.
    fn example() -> chart::Chart {
        let cluster: MiniCluster = serde_json::from_value(json!({
            "metadata": { "name": "hello", "creationTimestamp": at(0) },
            "spec": { "size": 5, "containers": [{}] },
        }))
        .unwrap();
        let message = json!({ "exitCode": 7, "commandRan": true, "phases": phases(&[
            ("prepare", 0, 40), ("quorum", 40, 960), ("command", 1000, 5000), ("shutdown", 6000, 500),
        ]) });
        let lead = json!({ "terminated": {
            "exitCode": 7, "startedAt": at(3), "finishedAt": at(10), "message": message.to_string(),
        } });
        let killed =
            json!({ "terminated": { "exitCode": 137, "startedAt": at(3), "finishedAt": at(5) } });
        let running = json!({ "running": { "startedAt": at(4) } });
        let waiting = json!({ "waiting": { "reason": "PodInitializing" } });
        let unscheduled = json!({ "conditions": [{ "type": "PodScheduled", "status": "False" }] });
        let pods = BTreeMap::from([
            pod(0, 1, &status(1, &lead)),
            pod(1, 1, &status(2, &running)),
            pod(2, 1, &status(2, &killed)),
            pod(3, 6, &status(7, &waiting)),
            pod(4, 6, &unscheduled),
        ]);
        let worker =
            phases(&[("prepare", 0, 30), ("wait-for-lead", 30, 300), ("command", 330, 7670)]);
        let reports = BTreeMap::from([(1, worker)]);
        chart(&cluster, &pods, &reports, Timestamp::from_second(1_000_012).unwrap())
    }

    #[test]
    fn every_rank_is_on_one_axis_of_time() {
        insta::assert_yaml_snapshot!(example());
    }

    #[test]
    fn the_chart_fits_the_terminal() {
        let shown = anstream::adapter::strip_str(&text::text(&example(), 80)).to_string();
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        insta::assert_snapshot!(shown);
    }

    #[test]
    fn missing_and_unordered_times_stay_inside_the_chart() {
        let cluster: MiniCluster = serde_json::from_value(
            json!({ "metadata": { "name": "hello" }, "spec": { "containers": [] } }),
        )
        .unwrap();
        let early =
            json!({ "terminated": { "exitCode": 0, "startedAt": at(-5), "finishedAt": at(-9) } });
        let pods = BTreeMap::from([pod(0, 3, &status(1, &early)), (1, Pod::default())]);
        let chart =
            chart(&cluster, &pods, &BTreeMap::new(), Timestamp::from_second(1_000_003).unwrap());
        let mut segments = chart.rows.iter().flat_map(|row| &row.segments);
        assert!(
            segments.all(|it| it.start_milliseconds >= 0 && it.duration_milliseconds >= 0),
            "{chart:?}"
        );
        assert!(!text::text(&chart, 10).is_empty());
    }
}
