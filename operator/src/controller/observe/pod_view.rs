//! The state of the run inside a pod, from the pod's status, or, for a lost lead, from the Job's condition.

use super::waiting::{Waiting, remedy, waiting};
use crate::controller::job_ext::job_condition;
use crate::controller::pod_ext::{
    condition, containers, disruption, has_failed, is_unstarted, phase,
};
use flux_api::crd::Reason;
use flux_contract::{Exit, FailedTask, TerminationMessage};
use k8s_openapi::api::batch::v1::{Job, PodFailurePolicyRule};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use std::time::Duration;

/// Time for which an unready lead counts as ready, because it may be about to end.
const READINESS_TOLERANCE: Duration = Duration::from_secs(10);

const MEMORY_LIMIT: &str = "spec.containers[].resources.limits.memory";
/// The kubelet's reason for a container that exceeded its memory limit.
const OUT_OF_MEMORY: &str = Reason::OOMKilled.as_str();

/// How a run has ended, for a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// In `CamelCase`.
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Outcome {
    pub(crate) fn new(reason: impl AsRef<str>, message: String) -> Self {
        Self { reason: reason.as_ref().to_owned(), message }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) exit_code: i32,
    /// The agent's termination message, if the agent wrote one.
    pub(crate) message: Option<TerminationMessage>,
    /// The kubelet's reason: `Error`, `OOMKilled`, ...
    reason: Option<String>,
}

impl Ended {
    fn of(end: &ContainerStateTerminated) -> Self {
        Self {
            exit_code: end.exit_code,
            message: end.message.as_deref().and_then(TerminationMessage::from_json),
            reason: end.reason.clone(),
        }
    }
}

pub(crate) struct PodView<'pod> {
    pub(crate) pod: &'pod Pod,
    runner: &'pod str,
    pub(crate) over: bool,
    /// The pod has failed before its runner was started.
    pub(crate) unstarted: bool,
    pub(crate) running: bool,
    /// The broker is online; for the lead: the quorum was reached. A failed sidecar does not change it.
    pub(crate) ready: bool,
    /// The broker was ready and has been unready for longer than [`READINESS_TOLERANCE`].
    pub(crate) degraded: bool,
    pub(crate) ended: Option<Ended>,
    /// Why the pod does not run, if it does not only need time.
    pub(crate) waiting: Option<Waiting>,
}

/// True when `runner` was ready and has been unready since `since` for longer than [`READINESS_TOLERANCE`]. A `since`
/// before the start of the runner means that the readiness probe has not run yet.
fn is_lost(runner: &ContainerStatus, since: &Time, now: &Time) -> bool {
    let running = runner.state.as_ref().and_then(|state| state.running.as_ref());
    let began = running.and_then(|running| running.started_at.as_ref());
    began.is_some_and(|began| began.0 < since.0)
        && now.0.duration_since(since.0).unsigned_abs() >= READINESS_TOLERANCE
}

impl<'pod> PodView<'pod> {
    pub(crate) fn new(pod: &'pod Pod, runner: &'pod str, now: &Time) -> Self {
        let status = pod.status.as_ref();
        let phase = phase(pod).unwrap_or_default();
        let own = status.into_iter().flat_map(containers).find(|it| it.name == runner);
        let ready = status.and_then(|status| condition(status, "Ready"));
        let unstarted = is_unstarted(pod, runner);
        let ended = own.and_then(terminated).filter(|_| !unstarted).map(Ended::of);
        let mut view = Self {
            pod,
            runner,
            unstarted,
            over: matches!(phase, "Succeeded" | "Failed"),
            running: phase == "Running",
            ready: ready.is_some_and(|ready| ready.status == "True"),
            degraded: false,
            ended,
            waiting: waiting(std::slice::from_ref(pod), &[], now),
        };
        view.ready |= own.is_some_and(|own| own.ready) && view.failed_container().is_some();
        // The startup probe succeeds when the broker is ready for the first time.
        if let Some(own) = own.filter(|own| own.started == Some(true))
            && !view.ready
            && view.running
        {
            let since = ready.and_then(|ready| ready.last_transition_time.as_ref());
            view.degraded = since.is_some_and(|since| is_lost(own, since, now));
            view.ready = !view.degraded;
        }
        view
    }

    pub(crate) fn is_about_to_end(&self) -> bool {
        !self.over && self.ended.is_none() && self.pod.metadata.deletion_timestamp.is_none()
    }

    /// True if the agent has left the end of the command, with the code that the runner has ended with: the runner was
    /// neither killed nor lost.
    pub(crate) fn command_ended(&self) -> bool {
        let ended = self.ended.as_ref().filter(|_| disruption(self.pod).is_none());
        ended.is_some_and(|ended| {
            let message = ended.message.as_ref();
            message.is_some_and(|it| it.command_ran && it.exit_code == ended.exit_code)
        })
    }

    /// Why the pod failed, if it did: the end of the runner, else the kubelet's reason, else another container's end.
    pub(crate) fn failure(&self) -> Option<Outcome> {
        if let Some(ended) = self.ended.as_ref().filter(|ended| ended.exit_code != 0) {
            let Outcome { reason, message } = self.runner_failure(ended);
            let ended_by_itself = ended.message.as_ref().is_some_and(|message| message.command_ran);
            let reason = self.kubelets_reason().filter(|_| !ended_by_itself).unwrap_or(reason);
            let removal = self.removal_message().map(|why| format!("; the pod was removed: {why}"));
            let (removal, log) = (removal.unwrap_or_default(), self.log_command());
            return Some(Outcome { reason, message: format!("{message}{removal}; {log}") });
        }
        let status = self.pod.status.as_ref().filter(|_| has_failed(self.pod))?;
        if let Some(reason) = self.kubelets_reason() {
            let message = status.message.clone().unwrap_or_default();
            return Some(Outcome { message: format!("{message}{}", remedy(&reason)), reason });
        }
        Some(Outcome::new(Reason::ContainerFailed, self.failed_container()?))
    }

    /// The end of the runner before the kubelet started it again in this pod, if it did.
    pub(crate) fn earlier_end(&self) -> Option<Outcome> {
        let status = self.pod.status.as_ref()?;
        let own = containers(status).find(|it| it.name == self.runner)?;
        let end = own.last_state.as_ref()?.terminated.as_ref()?;
        Some(self.runner_failure(&Ended::of(end)))
    }

    /// The kubelet's reason to end the pod, if it did: `Evicted`, ...
    fn kubelets_reason(&self) -> Option<String> {
        self.pod.status.as_ref()?.reason.as_deref().map(camel_case)
    }

    /// Message about the removal of the pod, by a disruption or by the kubelet.
    fn removal_message(&self) -> Option<&str> {
        let status = self.pod.status.as_ref()?;
        let disruption = disruption(self.pod).map(|it| it.message.as_deref().unwrap_or_default());
        disruption.or_else(|| status.reason.as_ref().and(status.message.as_deref()))
    }

    /// The failed container beside the runner, if there is one, and its end.
    pub(crate) fn failed_beside(&self) -> Option<(&ContainerStatus, &ContainerStateTerminated)> {
        let beside = |container: &&ContainerStatus| container.name != self.runner;
        let all = self.pod.status.iter().flat_map(containers);
        all.filter(beside).find_map(|container| {
            Some((container, terminated(container)?)).filter(|(_, end)| end.exit_code != 0)
        })
    }

    /// For a message: that container with its exit code and its last message.
    pub(crate) fn failed_container(&self) -> Option<String> {
        let (container, end) = self.failed_beside()?;
        let message = end.message.as_deref().unwrap_or_default();
        // The termination message of the agent, or of another program.
        let text = match TerminationMessage::from_json(message) {
            Some(message) => message.last_error.unwrap_or_default(),
            None => message.trim_end().lines().last().unwrap_or_default().to_owned(),
        };
        let separator = if text.is_empty() { "" } else { ": " };
        let (name, code) = (&container.name, end.exit_code);
        Some(format!("container {name} exited with code {code}{separator}{text}"))
    }

    fn log_command(&self) -> String {
        let namespace = self.pod.namespace().unwrap_or_default();
        let (name, runner) = (self.pod.name_any(), self.runner);
        format!("its log: kubectl logs --namespace {namespace} {name} --container {runner}")
    }

    fn runner_failure(&self, ended: &Ended) -> Outcome {
        let (code, runner) = (ended.exit_code, self.runner);
        let Some(message) = &ended.message else {
            let word = ended.reason.as_deref().unwrap_or("Error");
            let reason = if word == "Error" { Reason::ContainerFailed.as_str() } else { word };
            let message = if word == OUT_OF_MEMORY {
                format!(
                    "container {runner} ran out of the memory that its limits allow (exit code {code}); \
                     {MEMORY_LIMIT} sets them"
                )
            } else {
                format!("container {runner} exited with code {code} ({word})")
            };
            return Outcome::new(camel_case(reason), message);
        };
        // Only the kubelet knows that the command was killed for its memory.
        if message.command_ran && ended.reason.as_deref() == Some(OUT_OF_MEMORY) {
            let message = format!(
                "command exited with code {code}: container {runner} ran out of the memory that its \
                 limits allow; {MEMORY_LIMIT} sets them"
            );
            return Outcome::new(OUT_OF_MEMORY, message);
        }
        let (reason, text) = if message.command_ran {
            let text = match message.signal {
                Some(signal) => format!("command was ended by signal {signal} (exit code {code})"),
                None => format!("command exited with code {code}{}", meaning(code)),
            };
            let text =
                format!("{text}{}", message.failed_task.as_ref().map(task).unwrap_or_default());
            (Reason::CommandFailed.as_str(), text)
        } else {
            // The agent also has exit codes for the end of a running command, for example by the deadline.
            let what =
                if message.command_began() { "run was ended" } else { "command was not run" };
            // A killed agent ends with the kernel's code, but its message has its own code.
            let own = Exit::from_code(message.exit_code);
            let reason = own.map_or(Reason::AgentFailed.as_str(), Exit::reason);
            (reason, format!("the {what} (exit code {code})"))
        };
        let error = message.last_error.as_deref().filter(|error| !error.is_empty());
        let error = error.map(|error| format!(": {error}")).unwrap_or_default();
        Outcome::new(reason, format!("{text}{error}"))
    }
}

/// For a message: the failed task.
fn task(failed: &FailedTask) -> String {
    let host = failed.host.iter().map(|host| format!(" on {host}"));
    let signal = failed.signal.iter().map(|signal| format!(", ended by signal {signal}"));
    let more: String = host.chain(signal).collect();
    format!(" (rank {}{more})", failed.rank)
}

/// The meaning in POSIX of the exit codes for a command that cannot be run.
const fn meaning(code: i32) -> &'static str {
    match code {
        126 => " (found, but cannot be executed)",
        127 => " (not found)",
        _ => "",
    }
}

/// `reason` if it is `CamelCase`, as conditions require: the kubelet's are, but those of a runtime may not be.
fn camel_case(reason: &str) -> String {
    let fits = reason.starts_with(|c: char| c.is_ascii_alphabetic())
        && reason.chars().all(|c| c.is_ascii_alphanumeric());
    if fits { reason } else { Reason::ContainerFailed.as_str() }.to_owned()
}

fn terminated(container: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    container.state.as_ref()?.terminated.as_ref()
}

/// The exit code of the lead's runner from the condition of `job`: `Container hello for pod default/hello-0-abcde
/// failed with exit code 7 matching FailJob rule at index 1` (`pod_failure_policy.go` of Kubernetes). `None` if the
/// message does not agree with the rules of the Job.
pub(crate) fn exit_code_of_lost_lead(job: &Job) -> Option<i32> {
    let name = job.name_any();
    let failed = job_condition(job, "Failed")?;
    if failed.reason.as_deref() != Some("PodFailurePolicy") {
        return None;
    }
    let message = failed.message.as_deref()?.strip_prefix(&format!("Container {name} for pod "))?;
    let (_namespace, message) = message.split_once('/')?;
    let message = message.strip_prefix(&format!("{name}-0-"))?;
    let (_, message) = message.split_once(" failed with exit code ")?;
    let (code, index) = message.split_once(" matching FailJob rule at index ")?;
    let (code, index) = (code.parse().ok()?, index.parse::<usize>().ok()?);
    let rule = job.spec.as_ref()?.pod_failure_policy.as_ref()?.rules.get(index)?;
    rule_matches(rule, &name, code).then_some(code)
}

fn rule_matches(rule: &PodFailurePolicyRule, name: &str, code: i32) -> bool {
    rule.action == "FailJob"
        && rule.on_exit_codes.as_ref().is_some_and(|codes| {
            codes.container_name.as_deref().is_none_or(|container| container == name)
                && codes.values.contains(&code) == (codes.operator == "In")
        })
}

/// The failure with this exit code, which is the agent's or the command's.
pub(crate) fn failure_of_lost_lead(code: i32) -> Outcome {
    let gone = "its pod is gone, and its log with it";
    if let Some(exit) = Exit::from_code(code) {
        return Outcome::new(
            exit.reason(),
            format!("the lead ended with exit code {code}; {gone}"),
        );
    }
    let message = format!("command exited with code {code}{}; {gone}", meaning(code));
    Outcome::new(Reason::CommandFailed, message)
}
