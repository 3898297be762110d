//! The chart as a value: the stages of each rank's pod, in milliseconds from the creation of the MiniCluster.

use crate::minicluster::runner_state;
use crate::prelude::*;
use flux_contract::{Phase, TerminationMessage};
use k8s_openapi::api::core::v1::ContainerState;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

/// The pod waits for a node.
pub(super) const SCHEDULE: &str = "schedule";
/// Images are pulled, volumes are mounted, init containers run.
pub(super) const START: &str = "start";
/// The container runs, and the phases of its agent are unknown.
pub(super) const RUN: &str = "run";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chart {
    pub name: String,
    pub created: Timestamp,
    pub milliseconds: i64,
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub rank: u32,
    pub pod: String,
    pub node: Option<String>,
    pub exit_code: Option<i32>,
    pub segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Segment {
    /// One of the names above, or a phase of the agent.
    pub name: String,
    pub start_milliseconds: i64,
    pub duration_milliseconds: i64,
    pub continues: bool,
}

impl Segment {
    pub(super) const fn end(&self) -> i64 {
        self.start_milliseconds + self.duration_milliseconds
    }
}

/// Puts pods and the phases of their agents on one axis. `reports` has the phases of running agents.
pub(super) fn chart(
    cluster: &MiniCluster,
    pods: &BTreeMap<u32, Pod>,
    reports: &BTreeMap<u32, Vec<Phase>>,
    now: Timestamp,
) -> Chart {
    let created = cluster.creation_timestamp().map_or(now, |at| at.0);
    let name = cluster.name_any();
    let axis = Axis { created, now };
    let row = |(rank, pod): (&u32, &Pod)| {
        axis.row(&name, *rank, pod, reports.get(rank).map_or(&[], Vec::as_slice))
    };
    let rows: Vec<Row> = pods.iter().map(row).collect();
    let ends = rows.iter().flat_map(|row| &row.segments).map(Segment::end);
    let milliseconds = ends.max().unwrap_or_default();
    Chart { name, created, milliseconds, rows }
}

struct Axis {
    created: Timestamp,
    now: Timestamp,
}

impl Axis {
    /// Milliseconds from the start of the axis, at least 0, as clocks may differ.
    fn offset(&self, at: Timestamp) -> i64 {
        at.as_millisecond().saturating_sub(self.created.as_millisecond()).max(0)
    }

    fn segment(&self, name: &str, from: i64, to: Option<i64>) -> Segment {
        Segment {
            name: name.to_owned(),
            start_milliseconds: from,
            duration_milliseconds: to
                .unwrap_or_else(|| self.offset(self.now))
                .saturating_sub(from)
                .max(0),
            continues: to.is_none(),
        }
    }

    fn row(&self, name: &str, rank: u32, pod: &Pod, reported: &[Phase]) -> Row {
        let offset = |time: Option<&Time>| time.map(|time| self.offset(time.0));
        let created = offset(pod.metadata.creation_timestamp.as_ref()).unwrap_or_default();
        let state = runner_state(pod, name);
        let end = state.and_then(|state| state.terminated.as_ref());
        let running = state.and_then(|state| state.running.as_ref());
        let started = running.map(|running| running.started_at.as_ref());
        let started = offset(started.or_else(|| end.map(|end| end.started_at.as_ref())).flatten());
        let finished = offset(end.and_then(|end| end.finished_at.as_ref()));
        let scheduled = offset(scheduled(pod)).or(started);
        let mut segments = vec![self.segment(SCHEDULE, created, scheduled)];
        segments.extend(scheduled.map(|from| self.segment(START, from, started)));
        if let Some(started) = started {
            let phases = phases_of(state).unwrap_or_else(|| reported.to_vec());
            let is_running = finished.is_none();
            if phases.is_empty() {
                segments.push(self.segment(RUN, started, finished));
            } else {
                segments.extend(segments_of(&phases, started, is_running));
            }
        }
        Row {
            rank,
            pod: pod.name_any(),
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            exit_code: end.map(|end| end.exit_code),
            segments,
        }
    }
}

/// The phases of an agent that started at `started`. The last phase of a running agent continues.
fn segments_of(phases: &[Phase], started: i64, is_running: bool) -> impl Iterator<Item = Segment> {
    let last = phases.len().saturating_sub(1);
    let milliseconds = |count: u64| i64::try_from(count).unwrap_or(i64::MAX / 4);
    phases.iter().enumerate().map(move |(index, phase)| Segment {
        name: phase.name.clone(),
        start_milliseconds: started.saturating_add(milliseconds(phase.start_milliseconds)),
        duration_milliseconds: milliseconds(phase.duration_milliseconds),
        continues: is_running && index == last,
    })
}

fn scheduled(pod: &Pod) -> Option<&Time> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let is_scheduled = |type_: &str, status: &str| type_ == "PodScheduled" && status == "True";
    let condition = conditions.iter().find(|it| is_scheduled(&it.type_, &it.status))?;
    condition.last_transition_time.as_ref()
}

fn phases_of(state: Option<&ContainerState>) -> Option<Vec<Phase>> {
    let message = state?.terminated.as_ref()?.message.as_ref()?;
    Some(TerminationMessage::from_json(message)?.phases)
}
