//! How long runs take, and how they end. Each figure comes from a status that was just written over another one: the
//! write carries the version of the other, so no operator, before or after this one, counts the same again.

use super::reasons::{COMPLETE, FAILED, OTHER, label};
use flux_api::crd::{State, TimelineEntry};
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

/// In seconds, up to an hour.
const TO_READY: [f64; 13] =
    [1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];
/// In seconds, up to a week.
const TO_END: [f64; 14] = [
    2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 10_800.0, 43_200.0, 86_400.0,
    604_800.0,
];
/// In seconds: a phase that only prepares takes milliseconds, and that of the command anything.
const OF_PHASE: [f64; 14] =
    [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 43_200.0, 604_800.0];

/// What the change of a status tells of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change<'status> {
    /// How many pods it has.
    pub(crate) size: i32,
    /// From creation to the first time that it was ready, if that is now.
    pub(crate) ready: Option<Duration>,
    /// Its end, if that is now.
    pub(crate) end: Option<End<'status>>,
}

/// How a run has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End<'status> {
    /// From creation, where the time of the end is known.
    pub(crate) after: Option<Duration>,
    pub(crate) state: State,
    pub(crate) reason: &'status str,
    pub(crate) timeline: &'status [TimelineEntry],
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Size {
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
struct Phase {
    phase: &'static str,
}

pub(super) struct Runs {
    ready: Family<Size, Histogram>,
    end: Family<SizeAndState, Histogram>,
    ended: Family<StateAndReason, Counter>,
    phases: Family<Phase, Histogram>,
}

/// `Complete`, or `Failed`: nothing else is an end.
const fn word(state: State) -> &'static str {
    if matches!(state, State::Complete) { "Complete" } else { "Failed" }
}

impl Runs {
    /// Each series is there from the start: the first event of one that comes with it counts for nobody who asks how
    /// many there were.
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let runs = Self {
            ready: Family::new_with_constructor(|| Histogram::new(TO_READY)),
            end: Family::new_with_constructor(|| Histogram::new(TO_END)),
            ended: Family::default(),
            phases: Family::new_with_constructor(|| Histogram::new(OF_PHASE)),
        };
        for (_, size) in SIZES {
            drop(runs.ready.get_or_create(&Size { size }));
            for state in [State::Complete, State::Failed].map(word) {
                drop(runs.end.get_or_create(&SizeAndState { size, state }));
            }
        }
        for (state, reasons) in [(State::Complete, COMPLETE), (State::Failed, FAILED)] {
            for reason in reasons.split_whitespace().chain([OTHER]) {
                drop(runs.ended.get_or_create(&StateAndReason { state: word(state), reason }));
            }
        }
        for phase in phase::ALL.into_iter().chain([OTHER]) {
            drop(runs.phases.get_or_create(&Phase { phase }));
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

    pub(super) fn observe(&self, change: &Change<'_>) {
        let size = SIZES.iter().find(|(most, _)| change.size <= *most).map_or(OTHER, |it| it.1);
        if let Some(ready) = change.ready {
            self.ready.get_or_create(&Size { size }).observe(ready.as_secs_f64());
        }
        let Some(End { after, state, reason, timeline }) = &change.end else { return };
        let (state, reason) = (word(*state), label(reason));
        self.ended.get_or_create(&StateAndReason { state, reason }).inc();
        if let Some(after) = after {
            self.end.get_or_create(&SizeAndState { size, state }).observe(after.as_secs_f64());
        }
        for entry in *timeline {
            let phase = phase::ALL.into_iter().find(|it| *it == entry.name).unwrap_or(OTHER);
            // A pod may say anything; a duration is no less than nothing.
            let milliseconds = u64::try_from(entry.duration_milliseconds).unwrap_or_default();
            let duration = Duration::from_millis(milliseconds);
            self.phases.get_or_create(&Phase { phase }).observe(duration.as_secs_f64());
        }
    }
}
