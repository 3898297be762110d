//! What is counted. No name of an object is ever a label: their number is not ours to bound.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::fmt;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failure {
    category: &'static str,
}

/// The operator's counters.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    runs: Counter,
    failures: Family<Failure, Counter>,
    duration: Histogram,
    is_leader: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("flux_operator");
        let runs = Counter::default();
        let failures = Family::default();
        // From 1 ms to about 65 s: a reconcile is given up after a minute.
        let duration = Histogram::new(exponential_buckets(0.001, 2.0, 17));
        let is_leader = Gauge::default();
        registry.register("reconcile_runs", "Reconciles of one MiniCluster", runs.clone());
        registry.register(
            "reconcile_failures",
            "Reconciles that failed and will be repeated, by the kind of failure; TimedOut: given up, Internal: a panic",
            failures.clone(),
        );
        registry.register(
            "reconcile_duration_seconds",
            "Duration of a reconcile of one MiniCluster",
            duration.clone(),
        );
        registry.register(
            "is_leader",
            "1 while this operator acts, 0 while it stands by",
            is_leader.clone(),
        );
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        registry.register("build", "The release of this operator", Info::new(version));
        Self { registry, runs, failures, duration, is_leader }
    }
}

impl Metrics {
    pub(crate) fn observe(&self, duration: Duration, failure: Option<&'static str>) {
        self.runs.inc();
        self.duration.observe(duration.as_secs_f64());
        if let Some(category) = failure {
            self.failures.get_or_create(&Failure { category }).inc();
        }
    }

    pub(crate) fn set_leader(&self, leader: bool) {
        self.is_leader.set(leader.into());
    }

    /// The `OpenMetrics` text of all counters.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_for_those_who_run_the_operator_has_every_metric() {
        let page = include_str!("../../docs/operations.md");
        let metrics = Metrics::default();
        metrics.observe(Duration::from_millis(3), Some("ApplyFailed"));
        let text = metrics.text().unwrap();
        let described = |with: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix(with));
            lines.map(|line| line.split_once(' ').unwrap()).collect::<Vec<_>>()
        };
        let (helps, kinds) = (described("# HELP "), described("# TYPE "));
        assert_eq!(helps.len(), 5, "{text}");
        for ((name, help), (_, kind)) in helps.into_iter().zip(kinds) {
            let end = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            let row = format!("| `{name}{end}` | {kind} | {} |", help.trim_end_matches('.'));
            assert!(page.contains(&row), "docs/operations.md has no row {row}");
        }
    }

    #[test]
    fn reconciles_leadership_and_release_are_exported() {
        let metrics = Metrics::default();
        metrics.observe(Duration::from_millis(3), None);
        metrics.observe(Duration::from_millis(3), Some("ApplyFailed"));
        metrics.set_leader(true);
        let text = metrics.text().unwrap();
        for line in [
            "reconcile_runs_total 2",
            "reconcile_failures_total{category=\"ApplyFailed\"} 1",
            concat!("build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
            "is_leader 1",
        ] {
            assert!(text.contains(&format!("flux_operator_{line}")), "no {line} in\n{text}");
        }
        metrics.set_leader(false);
        assert!(metrics.text().unwrap().contains("flux_operator_is_leader 0"));
    }
}
