//! Counts of the existing MiniClusters, computed at each scrape, so that no series of a deleted one is left.

use super::reasons::label;
use flux_api::crd::State;
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The beginning of the name of every metric.
pub(super) const PREFIX: &str = "flux_operator";
/// The states in which a MiniCluster may wait.
const WAITING: [State; 4] = [State::Pending, State::Starting, State::Degraded, State::Suspended];

/// The part of a status that the metrics count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) state: State,
    pub(crate) reason: &'static str,
    pub(crate) in_queue: bool,
    /// Since when the MiniCluster waits to be ready or in a queue; absent while it does not wait.
    pub(crate) waits_since: Option<Timestamp>,
}

impl Summary {
    pub(crate) fn new(
        state: State,
        reason: &str,
        in_queue: bool,
        waits_since: Option<Timestamp>,
    ) -> Self {
        Self { state, reason: label(reason), in_queue, waits_since }
    }
}

/// One existing MiniCluster as this operator saw it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownMiniCluster {
    /// Absent before its first status.
    pub(crate) summary: Option<Summary>,
    /// True while no reconcile of the present generation has ended.
    pub(crate) is_pending: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateAndReason {
    state: String,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    state: String,
}

/// Gauges over all existing MiniClusters.
#[derive(Debug, Default)]
pub(crate) struct Population {
    by_state: Family<StateAndReason, Gauge>,
    in_queue: Gauge,
    longest_wait: Family<InState, Gauge>,
    pending: Gauge,
}

impl Population {
    /// One without MiniClusters.
    pub(super) fn new() -> Self {
        let population = Self::default();
        for state in WAITING {
            drop(population.longest_wait.get_or_create(&InState { state: state.to_string() }));
        }
        population
    }

    pub(crate) fn add(&self, observed: KnownMiniCluster, now: Timestamp) {
        self.pending.inc_by(observed.is_pending.into());
        let Some(Summary { state, reason, in_queue, waits_since }) = observed.summary else {
            let unknown = StateAndReason { state: "Unknown".to_owned(), reason: "" };
            self.by_state.get_or_create(&unknown).inc();
            return;
        };
        let state = state.to_string();
        self.by_state.get_or_create(&StateAndReason { state: state.clone(), reason }).inc();
        self.in_queue.inc_by(in_queue.into());
        if let Some(since) = waits_since {
            let seconds = now.duration_since(since).as_secs();
            let longest = self.longest_wait.get_or_create(&InState { state });
            longest.set(longest.get().max(seconds));
        }
    }

    pub(super) fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register(
            "miniclusters",
            "Number of MiniClusters, by state and by the reason in their status; Unknown: this operator has not reconciled them yet",
            self.by_state.clone(),
        );
        registry.register(
            "miniclusters_in_queue",
            "Number of MiniClusters that wait in a queue to be admitted",
            self.in_queue.clone(),
        );
        registry.register(
            "longest_wait_seconds",
            "Longest time that a MiniCluster in this state has waited to be Ready; Suspended: to be admitted by a queue",
            self.longest_wait.clone(),
        );
        registry.register(
            "reconciles_pending",
            "Number of MiniClusters whose present generation has not been reconciled yet",
            self.pending.clone(),
        );
        registry
    }
}
