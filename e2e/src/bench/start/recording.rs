//! What was seen of a run, and when each of its milestones was reached.

use std::collections::BTreeMap;

use flux_contract::{TerminationMessage, phase};
use flux_operator::crd::MiniCluster;
use k8s_openapi::{
    api::{batch::v1::Job, core::v1::Pod},
    jiff::Timestamp,
};
use kube::ResourceExt as _;
use serde::Serialize;

use super::runtime::{Change, TaskEvent};
use crate::trial::is_true;

/// Label that the Job's controller gives to pods.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// A moment of a run that many runs have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Milestone {
    /// The operator has accepted the MiniCluster.
    Accepted,
    /// There is a Job.
    JobMade,
    /// There is the lead's pod.
    PodMade,
    /// The lead's pod has a node.
    Scheduled,
    /// The lead's pod has its namespaces.
    Sandbox,
    /// The lead's runner runs.
    Started,
    /// The lead's agent starts the broker.
    Prepared,
    /// The last worker's agent has found the lead.
    LeadFound,
    /// The lead's broker starts the command.
    Quorum,
    /// The command has ended.
    Command,
    /// The lead's broker has ended.
    Shutdown,
    /// The lead's runner has ended.
    PodEnded,
    /// The Job is Complete.
    Complete,
    /// The MiniCluster is Complete.
    Reported,
}

impl Milestone {
    /// All, in their usual order.
    pub(super) const ALL: [Self; 14] = [
        Self::Accepted,
        Self::JobMade,
        Self::PodMade,
        Self::Scheduled,
        Self::Sandbox,
        Self::Started,
        Self::Prepared,
        Self::LeadFound,
        Self::Quorum,
        Self::Command,
        Self::Shutdown,
        Self::PodEnded,
        Self::Complete,
        Self::Reported,
    ];

    /// In tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::JobMade => "Job made",
            Self::PodMade => "pod made",
            Self::Scheduled => "scheduled",
            Self::Sandbox => "sandbox",
            Self::Started => "runner started",
            Self::Prepared => "prepared",
            Self::LeadFound => "lead found by the last worker",
            Self::Quorum => "quorum",
            Self::Command => "command ended",
            Self::Shutdown => "broker ended",
            Self::PodEnded => "pod ended",
            Self::Complete => "Job Complete",
            Self::Reported => "MiniCluster Complete",
        }
    }
}

/// An object as the API server sent it.
#[derive(Debug, Clone)]
pub(super) enum Object {
    /// A pod.
    Pod(Box<Pod>),
    /// The Job.
    Job(Box<Job>),
    /// The MiniCluster of this project's operator.
    MiniCluster(Box<MiniCluster>),
}

/// When it came.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// By this machine's clock, as the tasks' times.
    pub(super) at: Timestamp,
    /// What came.
    pub(super) object: Object,
}

/// All that was seen of a run.
#[derive(Debug, Default)]
pub(super) struct Recording {
    /// Right before the first object was applied.
    pub(super) begun: Timestamp,
    /// In the order in which it came.
    pub(super) seen: Vec<Seen>,
    /// Of all containers of the node.
    pub(super) tasks: Vec<TaskEvent>,
    /// Containers of the lead's pod, those of its status and the one that holds its namespaces.
    pub(super) containers: Vec<String>,
}

impl Recording {
    /// How a run that has ended has ended; `None` while it goes on.
    pub(super) fn end(&self, has_minicluster: bool) -> Option<Result<(), String>> {
        let failed = |object: &Object| match object {
            Object::Job(job) => job_is(job, "Failed"),
            Object::MiniCluster(cluster) => is_true(cluster, "Failed"),
            Object::Pod(pod) => is_lead(pod) && phase_of(pod) == Some("Failed"),
        };
        if self.first(failed).is_some() {
            return Some(Err("it failed".to_owned()));
        }
        let lead_has_ended = self.lead().is_some_and(|lead| state(lead).ended);
        self.first(complete).filter(|_| lead_has_ended)?;
        if has_minicluster {
            self.first(reported)?;
        }
        Some(Ok(()))
    }

    /// The lead's pod as it was last.
    pub(super) fn lead(&self) -> Option<&Pod> {
        self.last_pods().into_values().find(|pod| is_lead(pod))
    }

    /// When what was reached, in seconds since the begin.
    pub(super) fn milestones(&self) -> BTreeMap<Milestone, f64> {
        let of_lead = |wanted: fn(&Pod) -> bool| {
            self.first(
                move |object| matches!(object, Object::Pod(pod) if is_lead(pod) && wanted(pod)),
            )
        };
        let lead = self.lead().map(state).unwrap_or_default();
        let sandbox = self.containers.iter().find(|it| !lead.all.contains(it));
        let started = self.task(&lead.container, Change::Started);
        let of_agent = |phase: &str, edge: Edge| after(started?, lead.phase(phase, edge)?);
        let reached = [
            (Milestone::Accepted, self.first(accepted)),
            (Milestone::JobMade, self.first(|object| matches!(object, Object::Job(_)))),
            (Milestone::PodMade, of_lead(|_| true)),
            (Milestone::Scheduled, of_lead(is_scheduled)),
            (Milestone::Sandbox, sandbox.and_then(|it| self.task(it, Change::Started))),
            (Milestone::Started, started),
            (Milestone::Prepared, of_agent(phase::QUORUM, Edge::Begin)),
            (Milestone::LeadFound, self.lead_found()),
            (Milestone::Quorum, of_agent(phase::QUORUM, Edge::End)),
            (Milestone::Command, of_agent(phase::COMMAND, Edge::End)),
            (Milestone::Shutdown, of_agent(phase::SHUTDOWN, Edge::End)),
            (Milestone::PodEnded, self.task(&lead.container, Change::Ended)),
            (Milestone::Complete, self.first(complete)),
            (Milestone::Reported, self.first(reported)),
        ];
        let seconds = |at: Timestamp| at.duration_since(self.begun).as_secs_f64();
        reached.into_iter().filter_map(|(it, at)| Some((it, seconds(at?)))).collect()
    }

    /// When the last worker has found the lead.
    fn lead_found(&self) -> Option<Timestamp> {
        let workers = self.last_pods().into_values().filter(|pod| !is_lead(pod)).map(state);
        let found = workers.filter_map(|worker| {
            let started = self.task(&worker.container, Change::Started)?;
            after(started, worker.phase(phase::WAIT_FOR_LEAD, Edge::End)?)
        });
        found.max()
    }

    fn first(&self, wanted: impl Fn(&Object) -> bool) -> Option<Timestamp> {
        self.seen.iter().find(|seen| wanted(&seen.object)).map(|seen| seen.at)
    }

    fn task(&self, container: &str, change: Change) -> Option<Timestamp> {
        let mut events = self.tasks.iter();
        let found = events.find(|event| event.container == container && event.change == change);
        found.map(|event| event.at)
    }

    fn last_pods(&self) -> BTreeMap<String, &Pod> {
        let pods = self.seen.iter().filter_map(|seen| match &seen.object {
            Object::Pod(pod) => Some((pod.name_any(), &**pod)),
            Object::Job(_) | Object::MiniCluster(_) => None,
        });
        pods.collect()
    }
}

/// Begin or end of a phase.
#[derive(Debug, Clone, Copy)]
enum Edge {
    Begin,
    End,
}

/// What a pod's status says of its containers.
#[derive(Debug, Default)]
struct State {
    /// The runner.
    container: String,
    /// Init containers, too.
    all: Vec<String>,
    ended: bool,
    message: Option<TerminationMessage>,
}

impl State {
    /// Milliseconds since the agent's start.
    fn phase(&self, name: &str, edge: Edge) -> Option<u64> {
        let phase = self.message.as_ref()?.phases.iter().rfind(|phase| phase.name == name)?;
        Some(match edge {
            Edge::Begin => phase.start_milliseconds,
            Edge::End => phase.start_milliseconds + phase.duration_milliseconds,
        })
    }
}

fn state(pod: &Pod) -> State {
    let Some(status) = &pod.status else { return State::default() };
    let id = |id: &Option<String>| {
        let id = id.as_deref().and_then(|id| id.strip_prefix("containerd://"));
        id.unwrap_or_default().to_owned()
    };
    let init = status.init_container_statuses.iter().flatten();
    let containers = status.container_statuses.iter().flatten();
    let all = init.chain(containers.clone()).map(|it| id(&it.container_id)).collect();
    let Some(runner) = containers.clone().next() else { return State::default() };
    let end = runner.state.as_ref().and_then(|state| state.terminated.as_ref());
    let message = end.and_then(|end| TerminationMessage::from_json(end.message.as_deref()?));
    State { container: id(&runner.container_id), all, ended: end.is_some(), message }
}

fn after(begin: Timestamp, milliseconds: u64) -> Option<Timestamp> {
    begin.checked_add(std::time::Duration::from_millis(milliseconds)).ok()
}

fn is_lead(pod: &Pod) -> bool {
    pod.labels().get(INDEX).is_some_and(|index| index == "0")
}

fn phase_of(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

fn is_scheduled(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
}

fn job_is(job: &Job, kind: &str) -> bool {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|it| it.type_ == kind && it.status == "True")
}

fn complete(object: &Object) -> bool {
    matches!(object, Object::Job(job) if job_is(job, "Complete"))
}

fn accepted(object: &Object) -> bool {
    matches!(object, Object::MiniCluster(cluster) if is_true(cluster, "Accepted"))
}

fn reported(object: &Object) -> bool {
    matches!(object, Object::MiniCluster(cluster) if is_true(cluster, "Complete"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + milliseconds).unwrap()
    }

    fn pod(index: u32, spec: &Value, status: &Value) -> Object {
        let metadata =
            json!({"name": format!("x-{index}-abc"), "labels": {INDEX: index.to_string()}});
        let pod = json!({"metadata": metadata, "spec": spec, "status": status});
        Object::Pod(Box::new(serde_json::from_value(pod).unwrap()))
    }

    fn ended(container: &str, phases: &[(&str, u64, u64)]) -> Value {
        let phases = phases.iter().map(|(name, start, duration)| flux_contract::Phase {
            name: (*name).to_owned(),
            start_milliseconds: *start,
            duration_milliseconds: *duration,
        });
        let message = TerminationMessage {
            command_ran: true,
            phases: phases.collect(),
            ..TerminationMessage::default()
        };
        let end = json!({"exitCode": 0, "message": message.to_json()});
        json!({"containerStatuses": [{
            "name": "x", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "containerID": format!("containerd://{container}"), "state": {"terminated": end},
        }]})
    }

    fn conditions(kind: &str) -> Value {
        json!({"conditions": [{
            "type": kind, "status": "True", "reason": "", "message": "",
            "lastTransitionTime": "2026-11-21T00:00:00Z",
        }]})
    }

    fn job(status: &Value) -> Object {
        Object::Job(Box::new(
            serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap(),
        ))
    }

    fn minicluster(kind: &str) -> Object {
        let spec = json!({"size": 2, "containers": [{"image": "a"}]});
        let value = json!({
            "apiVersion": "flux-framework.org/v1alpha2", "kind": "MiniCluster",
            "metadata": {"name": "x"}, "spec": spec, "status": conditions(kind),
        });
        Object::MiniCluster(Box::new(serde_json::from_value(value).unwrap()))
    }

    fn run() -> Recording {
        let plain = json!({"containers": []});
        let node = json!({"containers": [], "nodeName": "node"});
        let lead = [
            ("prepare", 5, 95),
            ("quorum", 100, 700),
            ("command", 800, 200),
            ("shutdown", 1000, 300),
        ];
        let seen = [
            (20, minicluster("Accepted")),
            (50, job(&json!({}))),
            (60, pod(0, &plain, &json!({}))),
            (80, pod(0, &node, &json!({}))),
            (
                2900,
                pod(
                    1,
                    &node,
                    &ended("worker", &[("wait-for-lead", 100, 400), ("quorum", 500, 600)]),
                ),
            ),
            (3000, pod(0, &node, &ended("lead", &lead))),
            (4000, job(&conditions("Complete"))),
            (4100, minicluster("Complete")),
        ];
        let task = |time, container: &str, change| TaskEvent {
            at: at(time),
            container: container.to_owned(),
            change,
        };
        Recording {
            begun: at(0),
            seen: seen.into_iter().map(|(time, object)| Seen { at: at(time), object }).collect(),
            tasks: vec![
                task(300, "sandbox", Change::Started),
                task(500, "lead", Change::Started),
                task(600, "worker", Change::Started),
                task(1850, "lead", Change::Ended),
            ],
            containers: vec!["lead".to_owned(), "sandbox".to_owned()],
        }
    }

    #[test]
    fn milestones_are_read_from_what_was_seen_the_runtime_and_the_agents() {
        let reached = run().milestones();
        let lines: Vec<_> =
            reached.iter().map(|(it, seconds)| format!("{seconds:.3} {}", it.name())).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        0.020 accepted
        0.050 Job made
        0.060 pod made
        0.080 scheduled
        0.300 sandbox
        0.500 runner started
        0.600 prepared
        1.100 lead found by the last worker
        1.300 quorum
        1.500 command ended
        1.800 broker ended
        1.850 pod ended
        4.000 Job Complete
        4.100 MiniCluster Complete
        ");
        assert!(Milestone::ALL.iter().eq(reached.keys()), "all, in their order");
    }

    #[test]
    fn a_run_ends_with_its_last_object() {
        let mut recording = run();
        assert_eq!(recording.end(true), Some(Ok(())));
        recording.seen.pop();
        assert_eq!(recording.end(true), None);
        assert_eq!(recording.end(false), Some(Ok(())));
        recording.seen.push(Seen { at: at(5000), object: job(&conditions("Failed")) });
        assert!(recording.end(false).unwrap().is_err());
    }

    #[test]
    fn a_run_whose_lead_has_failed_is_not_waited_for() {
        let status = json!({"phase": "Failed"});
        let of = |index| Seen { at: at(1000), object: pod(index, &json!({}), &status) };
        let mut recording = Recording { seen: vec![of(1)], ..Recording::default() };
        assert_eq!(recording.end(false), None, "the Go operator starts workers again");
        recording.seen.push(of(0));
        assert!(recording.end(false).unwrap().is_err());
    }

    #[test]
    fn what_was_not_seen_has_no_milestone() {
        assert!(Recording::default().milestones().is_empty());
        assert_eq!(Recording::default().end(false), None);
    }
}
