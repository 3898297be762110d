//! Durations and ends of runs. Each value comes from a status that was just written over another one with a resource
//! version, so no other operator counts it again.

use super::reasons::{OTHER, label};
use flux_api::crd::{Reason, State, TimelineEntry};
use flux_contract::phase;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::time::Duration;

/// Classes of size: the largest number of pods, and the label.
const SIZES: [(i32, &str); 5] =
    [(1, "1"), (8, "2-8"), (64, "9-64"), (512, "65-512"), (i32::MAX, ">512")];

/// Buckets of the time to ready in seconds, up to an hour.
const TO_READY: [f64; 13] =
    [1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];
/// Buckets of the time to the end in seconds, up to a week.
const TO_END: [f64; 14] = [
    2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 10_800.0, 43_200.0, 86_400.0,
    604_800.0,
];
/// Buckets of a phase in seconds: phases that prepare take milliseconds, the command may take days.
const OF_PHASE: [f64; 14] =
    [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 43_200.0, 604_800.0];

/// What changed in a run by one status write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatusChange<'status> {
    pub(crate) size: i32,
    /// Time from creation to the first time ready, if this write is the first that is ready.
    pub(crate) ready: Option<Duration>,
    /// The end, if this write is the first that has it.
    pub(crate) end: Option<End<'status>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End<'status> {
    /// Time from creation to the end, if it is known.
    pub(crate) after: Option<Duration>,
    pub(crate) state: State,
    pub(crate) reason: &'status str,
    pub(crate) timeline: &'status [TimelineEntry],
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SizeLabel {
    size: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SizeAndState {
    size: &'static str,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateAndReason {
    state: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabel {
    phase: &'static str,
}

pub(super) struct Runs {
    ready: Family<SizeLabel, Histogram>,
    end: Family<SizeAndState, Histogram>,
    ended: Family<StateAndReason, Counter>,
    phases: Family<PhaseLabel, Histogram>,
}

const fn state_label(state: State) -> &'static str {
    if matches!(state, State::Complete) { "Complete" } else { "Failed" }
}

impl Runs {
    /// Registers all series at the start with 0: Prometheus' `increase()` ignores the first value of a new series.
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let runs = Self {
            ready: Family::new_with_constructor(|| Histogram::new(TO_READY)),
            end: Family::new_with_constructor(|| Histogram::new(TO_END)),
            ended: Family::default(),
            phases: Family::new_with_constructor(|| Histogram::new(OF_PHASE)),
        };
        for (_, size) in SIZES {
            drop(runs.ready.get_or_create(&SizeLabel { size }));
            for state in [State::Complete, State::Failed].map(state_label) {
                drop(runs.end.get_or_create(&SizeAndState { size, state }));
            }
        }
        for (state, reasons) in
            [(State::Complete, Reason::COMPLETE), (State::Failed, Reason::FAILED)]
        {
            for reason in reasons.iter().map(|reason| reason.as_str()).chain([OTHER]) {
                let state = state_label(state);
                drop(runs.ended.get_or_create(&StateAndReason { state, reason }));
            }
        }
        for phase in phase::ALL.into_iter().chain([OTHER]) {
            drop(runs.phases.get_or_create(&PhaseLabel { phase }));
        }
        runs.register(registry);
        runs
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "time_to_ready_seconds",
            "From the creation of a MiniCluster to the first time that it is Ready, by number of pods",
            self.ready.clone(),
        );
        registry.register(
            "time_to_end_seconds",
            "From the creation of a MiniCluster to its end, by number of pods and by how it ends",
            self.end.clone(),
        );
        registry.register(
            "miniclusters_ended",
            "MiniClusters that have ended, by how and why; Other: a reason that is Kubernetes' own",
            self.ended.clone(),
        );
        registry.register(
            "phase_duration_seconds",
            "Duration of a phase of the lead's run, counted when that has ended",
            self.phases.clone(),
        );
    }

    pub(super) fn observe(&self, change: &StatusChange<'_>) {
        let size = SIZES.iter().find(|(most, _)| change.size <= *most).map_or(OTHER, |it| it.1);
        if let Some(ready) = change.ready {
            self.ready.get_or_create(&SizeLabel { size }).observe(ready.as_secs_f64());
        }
        let Some(End { after, state, reason, timeline }) = &change.end else { return };
        let (state, reason) = (state_label(*state), label(reason));
        self.ended.get_or_create(&StateAndReason { state, reason }).inc();
        if let Some(after) = after {
            self.end.get_or_create(&SizeAndState { size, state }).observe(after.as_secs_f64());
        }
        for entry in *timeline {
            let phase = phase::ALL.into_iter().find(|it| *it == entry.name).unwrap_or(OTHER);
            // The termination message of a pod may hold a negative number.
            let milliseconds = u64::try_from(entry.duration_milliseconds).unwrap_or_default();
            let duration = Duration::from_millis(milliseconds);
            self.phases.get_or_create(&PhaseLabel { phase }).observe(duration.as_secs_f64());
        }
    }
}
