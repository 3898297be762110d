//! The operator's metrics. No label has the name of an object, because the number of objects is unbounded.

mod population;
mod reasons;
mod requests;
mod runs;

pub(crate) use population::{KnownMiniCluster, Population, Summary};
pub(crate) use runs::{End, StatusChange};

use parking_lot::Mutex;
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
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Failure {
    category: &'static str,
}

/// Adds MiniClusters to a population.
type Count = Box<dyn Fn(&Population) + Send + Sync>;

/// The operator's metrics.
pub struct Metrics {
    registry: Registry,
    reconciles: Counter,
    failures: Family<Failure, Counter>,
    duration: Histogram,
    is_leader: Gauge,
    runs: Runs,
    requests: Requests,
    /// What each controller counts; a stand-by operator has none.
    counts: Mutex<Vec<Count>>,
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
        let counts = Mutex::default();
        Self { registry, reconciles, failures, duration, is_leader, runs, requests, counts }
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

    /// Adds a controller's function that counts its MiniClusters at each scrape.
    pub(crate) fn add_count(&self, count: impl Fn(&Population) + Send + Sync + 'static) {
        self.counts.lock().push(Box::new(count));
    }

    /// The layer that counts a client's requests to the API server.
    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// The `OpenMetrics` text of all metrics.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        let counts = self.counts.lock();
        if !counts.is_empty() {
            let population = Population::new();
            counts.iter().for_each(|count| count(&population));
            encode_registry(&mut text, &population.registry())?;
        }
        drop(counts);
        encode_eof(&mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
