//! `trace`: shows on one time axis when each rank started, what it did, and when it ended.

mod chart;
mod text;

use crate::connection::Connection;
use crate::error::line;
use crate::minicluster::{MiniClusterRef, NameArgument, is_running, layout};
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
        let reports = reports(&target, pods.clone(), &layout(&cluster).agent()).await;
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
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Example {
        now: Timestamp,
        cluster: MiniCluster,
        pods: BTreeMap<u32, Pod>,
        #[serde(default)]
        reports: BTreeMap<u32, Vec<Phase>>,
    }

    fn example(text: &str) -> chart::Chart {
        let Example { now, cluster, pods, reports } = serde_saphyr::from_str(text).unwrap();
        chart(&cluster, &pods, &reports, now)
    }

    #[test]
    fn every_rank_is_on_one_axis_of_time() {
        insta::assert_yaml_snapshot!(example(include_str!("tests/example.yaml")));
    }

    #[test]
    fn the_chart_fits_the_terminal() {
        let chart = example(include_str!("tests/example.yaml"));
        let shown = anstream::adapter::strip_str(&text::text(&chart, 80)).to_string();
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        insta::assert_snapshot!(shown);
    }

    #[test]
    fn missing_and_unordered_times_stay_inside_the_chart() {
        let chart = example(include_str!("tests/unordered.yaml"));
        let mut segments = chart.rows.iter().flat_map(|row| &row.segments);
        let is_inside =
            segments.all(|it| it.start_milliseconds >= 0 && it.duration_milliseconds >= 0);
        assert!(is_inside, "{chart:?}");
        assert!(!text::text(&chart, 10).is_empty());
    }
}
