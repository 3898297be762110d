//! The operator's metrics. No label has the name of an object, because the number of objects is unbounded.

mod population;
mod reasons;
mod requests;
mod runs;

pub(crate) use population::{KnownMiniCluster, Population, Summary};
pub(crate) use runs::{End, StatusChange};

use population::PREFIX;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use requests::Requests;
use runs::Runs;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failure {
    category: &'static str,
}

/// The operator's metrics.
pub struct Metrics {
    registry: Registry,
    reconciles: Counter,
    failures: Family<Failure, Counter>,
    duration: Histogram,
    is_leader: Gauge,
    runs: Runs,
    requests: Requests,
    /// Counts the MiniClusters; not set in a stand-by operator.
    population: OnceLock<Box<dyn Fn() -> Population + Send + Sync>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let reconciles = Counter::default();
        let failures = Family::default();
        // From 1 ms to about 65 s: a reconcile is cancelled after a minute.
        let duration = Histogram::new(exponential_buckets(0.001, 2.0, 17));
        let is_leader = Gauge::default();
        registry.register("reconcile_runs", "Reconciles of one MiniCluster", reconciles.clone());
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
        let runs = Runs::registered(&mut registry);
        let requests = Requests::registered(&mut registry);
        let population = OnceLock::new();
        Self { registry, reconciles, failures, duration, is_leader, runs, requests, population }
    }
}

impl Metrics {
    pub(crate) fn observe(&self, duration: Duration, failure: Option<&'static str>) {
        self.reconciles.inc();
        self.duration.observe(duration.as_secs_f64());
        if let Some(category) = failure {
            self.failures.get_or_create(&Failure { category }).inc();
        }
    }

    /// Counts a run that became ready or ended by a status that was just written.
    pub(crate) fn observe_status_change(&self, change: &StatusChange<'_>) {
        self.runs.observe(change);
    }

    pub(crate) fn set_leader(&self, leader: bool) {
        self.is_leader.set(leader.into());
    }

    /// Sets the function that counts the MiniClusters at each scrape.
    pub(crate) fn set_population(
        &self,
        population: impl Fn() -> Population + Send + Sync + 'static,
    ) {
        // A process runs one controller, so a second call cannot happen.
        let _ = self.population.set(Box::new(population));
    }

    /// The layer that counts a client's requests to the API server.
    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// The `OpenMetrics` text of all metrics.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        if let Some(population) = self.population.get() {
            encode_registry(&mut text, &population().registry())?;
        }
        encode_eof(&mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
