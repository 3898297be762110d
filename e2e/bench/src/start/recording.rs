//! The objects and events of a run, and the times of its milestones.

use super::containerd::{Change, TaskEvent};
use crate::namespace::Observed;
use flux_contract::labels::COMPLETION_INDEX;
use flux_contract::{TerminationMessage, phase};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use std::collections::BTreeMap;
use std::time::Duration;

/// A moment of a run: its name in tables and documents, and how it is found.
pub(super) type Milestone = (&'static str, fn(&Recording) -> Option<Timestamp>);

pub(super) const POD_ENDED: &str = "pod ended";
pub(super) const END_IN_STATUS: &str = "pod's status has the end";
pub(super) const JOB_COMPLETE: &str = "Job Complete";
pub(super) const MPI_JOB_SUCCEEDED: &str = "MPIJob Succeeded";
pub(super) const MINICLUSTER_COMPLETE: &str = "MiniCluster Complete";

/// The label by which the MPI Operator tells launcher and workers apart.
const MPI_ROLE: &str = "training.kubeflow.org/job-role";

pub(super) const MILESTONES: [Milestone; 16] = [
    ("accepted", |run| run.first(|it| it.is("MiniCluster") && it.has_condition("Accepted"))),
    ("Job made", |run| run.first(|it| it.is("Job"))),
    ("pod made", |run| run.first(is_lead)),
    ("scheduled", |run| {
        run.first(|it| is_lead(it) && it.object.data["spec"]["nodeName"].is_string())
    }),
    ("runner started", |run| run.task(runner(&run.lead()?)?, Change::Started)),
    ("prepared", |run| Some(run.phase(&run.lead()?, phase::QUORUM)?.0)),
    ("last worker's runner started", Recording::last_worker_started),
    ("lead found by the last worker", Recording::lead_found),
    ("quorum", |run| Some(run.phase(&run.lead()?, phase::QUORUM)?.1)),
    ("command ended", |run| Some(run.phase(&run.lead()?, phase::COMMAND)?.1)),
    ("broker ended", |run| Some(run.phase(&run.lead()?, phase::SHUTDOWN)?.1)),
    (POD_ENDED, |run| run.task(runner(&run.lead()?)?, Change::Ended)),
    (END_IN_STATUS, |run| run.first(|it| is_lead(it) && has_ended(it))),
    (JOB_COMPLETE, |run| run.first(|it| it.is("Job") && it.has_condition("Complete"))),
    (MPI_JOB_SUCCEEDED, |run| run.first(|it| it.is("MPIJob") && it.has_condition("Succeeded"))),
    (MINICLUSTER_COMPLETE, |run| {
        run.first(|it| it.is("MiniCluster") && it.has_condition("Complete"))
    }),
];

/// Whether it is the pod whose end is that of the run: the first of an Indexed Job, or the MPI Operator's launcher.
fn is_lead(seen: &Observed) -> bool {
    let labels = seen.object.labels();
    let has = |label, value| labels.get(label).is_some_and(|it| it == value);
    seen.is("Pod") && (has(COMPLETION_INDEX, "0") || has(MPI_ROLE, "launcher"))
}

fn has_ended(pod: &Observed) -> bool {
    pod.object.data["status"]["containerStatuses"][0]["state"]["terminated"].is_object()
}

fn has_failed(seen: &Observed) -> bool {
    let pod_failed = is_lead(seen) && seen.object.data["status"]["phase"] == "Failed";
    pod_failed || !seen.is("Pod") && seen.has_condition("Failed")
}

#[derive(Debug, Default)]
pub(super) struct Recording {
    /// Right before the first object was applied.
    pub(super) begun: Timestamp,
    pub(super) seen: Vec<Observed>,
    pub(super) tasks: Vec<TaskEvent>,
}

impl Recording {
    /// Whether a run whose last milestone this is has ended well, if it has ended; `None` while it goes on.
    pub(super) fn end(&self, last: &str) -> Option<bool> {
        if self.first(has_failed).is_some() {
            return Some(false);
        }
        self.reached(last)?;
        let lead = self.lead()?;
        end_of(status(&lead)?).map(|_| true)
    }

    /// When this milestone was.
    pub(super) fn reached(&self, milestone: &str) -> Option<Timestamp> {
        MILESTONES.iter().find(|(name, _)| *name == milestone)?.1(self)
    }

    /// When each milestone was reached, in seconds since the begin.
    pub(super) fn milestones(&self) -> BTreeMap<&'static str, f64> {
        let seconds = |at: Timestamp| at.duration_since(self.begun).as_secs_f64();
        MILESTONES.iter().filter_map(|(name, find)| Some((*name, seconds(find(self)?)))).collect()
    }

    /// The lead's pod as it was last.
    pub(super) fn lead(&self) -> Option<Pod> {
        self.pods(is_lead).into_iter().next()
    }

    fn pods(&self, wanted: impl Fn(&Observed) -> bool) -> Vec<Pod> {
        let pods = self.seen.iter().filter(|it| it.is("Pod") && wanted(it));
        let last: BTreeMap<String, &Observed> = pods.map(|it| (it.object.name_any(), it)).collect();
        last.into_values().filter_map(|it| it.object.clone().try_parse().ok()).collect()
    }

    fn last_worker_started(&self) -> Option<Timestamp> {
        let workers = self.pods(|it| !is_lead(it));
        workers.iter().filter_map(|it| self.task(runner(it)?, Change::Started)).max()
    }

    fn lead_found(&self) -> Option<Timestamp> {
        let workers = self.pods(|it| !is_lead(it));
        workers.iter().filter_map(|it| Some(self.phase(it, phase::WAIT_FOR_LEAD)?.1)).max()
    }

    /// Begin and end of a phase of the agent in this pod, which counts from its own start.
    fn phase(&self, pod: &Pod, name: &str) -> Option<(Timestamp, Timestamp)> {
        let started = self.task(runner(pod)?, Change::Started)?;
        let message = end_of(status(pod)?)?.message.as_deref()?;
        let phases = TerminationMessage::from_json(message)?.phases;
        let phase = phases.iter().rfind(|phase| phase.name == name)?;
        let begin = started.checked_add(Duration::from_millis(phase.start_milliseconds)).ok()?;
        Some((begin, begin.checked_add(Duration::from_millis(phase.duration_milliseconds)).ok()?))
    }

    fn first(&self, wanted: impl Fn(&Observed) -> bool) -> Option<Timestamp> {
        self.seen.iter().find(|seen| wanted(seen)).map(|seen| seen.at)
    }

    fn task(&self, container: &str, change: Change) -> Option<Timestamp> {
        let mut events = self.tasks.iter();
        let found = events.find(|event| event.container == container && event.change == change);
        found.map(|event| event.at)
    }
}

/// The status of the container in which Flux runs.
fn status(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}

/// Its name for containerd.
fn runner(pod: &Pod) -> Option<&str> {
    status(pod)?.container_id.as_deref()?.strip_prefix("containerd://")
}

fn end_of(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.state.as_ref()?.terminated.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_run_fails_with_its_lead() {
        let failed = |label: &str, value: &str| {
            let metadata = json!({"name": "x", "labels": {label: value}});
            let object = json!({"metadata": metadata, "status": {"phase": "Failed"}});
            let object = serde_json::from_value(object).unwrap();
            Observed { at: Timestamp::default(), kind: "Pod".to_owned(), object }
        };
        let end = |pods: &[Observed]| {
            Recording { seen: pods.to_vec(), ..Recording::default() }.end(JOB_COMPLETE)
        };
        let pods = ["1", "0"].map(|index| failed(COMPLETION_INDEX, index));
        assert_eq!(end(&pods[..1]), None, "the Go operator starts workers again");
        assert_eq!(end(&pods), Some(false));
        assert_eq!(end(&[failed(MPI_ROLE, "worker")]), None);
        assert_eq!(end(&[failed(MPI_ROLE, "launcher")]), Some(false));
    }
}
