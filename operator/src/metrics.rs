//! What is counted. No name of an object is ever a label: their number is not ours to bound.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::fmt;
use std::time::Duration;

/// The label of a failure.
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
}

impl Metrics {
    /// All counters at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("flux_operator");
        let runs = Counter::default();
        let failures = Family::default();
        // From 1 ms to about 16 s.
        let duration = Histogram::new(exponential_buckets(0.001, 2.0, 15));
        registry.register("reconcile_runs", "Looks at one MiniCluster", runs.clone());
        registry.register(
            "reconcile_failures",
            "Looks that failed and will be repeated, by the kind of failure",
            failures.clone(),
        );
        registry.register(
            "reconcile_duration_seconds",
            "Duration of a look at one MiniCluster",
            duration.clone(),
        );
        Self { registry, runs, failures, duration }
    }

    /// Counts one reconcile; `failure` is its category if it failed.
    pub fn observe(&self, duration: Duration, failure: Option<&'static str>) {
        self.runs.inc();
        self.duration.observe(duration.as_secs_f64());
        if let Some(category) = failure {
            self.failures.get_or_create(&Failure { category }).inc();
        }
    }

    /// The `OpenMetrics` text of all counters.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_failures_are_counted() {
        let metrics = Metrics::new();
        metrics.observe(Duration::from_millis(3), None);
        metrics.observe(Duration::from_millis(3), Some("ApplyFailed"));
        let text = metrics.text().unwrap();
        assert!(text.contains("flux_operator_reconcile_runs_total 2"), "{text}");
        assert!(
            text.contains("flux_operator_reconcile_failures_total{category=\"ApplyFailed\"} 1"),
            "{text}"
        );
    }
}
