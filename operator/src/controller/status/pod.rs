//! What a pod's status says about the run inside it.

use flux_contract::{Exit, TerminationMessage};
use k8s_openapi::api::core::v1::{
    ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus,
};
use kube::ResourceExt as _;

/// Waiting reasons that only say that it is not yet time.
const PATIENT: [&str; 2] = ["PodInitializing", "ContainerCreating"];

/// The kubelet's word for a container of which a process was killed for its memory.
const OUT_OF_MEMORY: &str = "OOMKilled";

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    /// Reason in `CamelCase`.
    pub(super) reason: String,
    /// For people.
    pub(super) message: String,
}

/// The end of the runner container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    /// Its exit code.
    pub(super) exit_code: i32,
    /// What the agent said about it, if it is the agent that wrote the termination message.
    pub(super) message: Option<TerminationMessage>,
    /// The kubelet's word for it: `Error`, `OOMKilled`, ...
    reason: Option<String>,
}

/// A pod as the operator sees it.
pub(super) struct PodView<'pod> {
    pod: &'pod Pod,
    runner: &'pod str,
    /// The pod has ended, well or not.
    pub(super) over: bool,
    /// Its containers run.
    pub(super) running: bool,
    /// Its broker is online; on the lead: the quorum is there. A pod whose sidecar has failed is
    /// not ready, but its runner is.
    pub(super) ready: bool,
    /// How the runner container ended, if it has.
    pub(super) ended: Option<Ended>,
    /// What keeps it from running, if it is more than a matter of time.
    pub(super) waiting: Option<String>,
}

impl<'pod> PodView<'pod> {
    /// Reads the status of `pod`, whose runner container is called `runner`.
    pub(super) fn new(pod: &'pod Pod, runner: &'pod str) -> Self {
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let own = containers(status).find(|container| container.name == runner);
        let ended = own.and_then(terminated).map(|end| Ended {
            exit_code: end.exit_code,
            message: end.message.as_deref().and_then(TerminationMessage::from_json),
            reason: end.reason.clone(),
        });
        let mut view = Self {
            pod,
            runner,
            over: matches!(phase, "Succeeded" | "Failed"),
            running: phase == "Running",
            ready: pod_condition(status, "Ready").is_some_and(|c| c.status == "True"),
            ended,
            waiting: waiting(pod),
        };
        view.ready |= own.is_some_and(|own| own.ready) && view.failed_container().is_some();
        view
    }

    /// True when it is still there, has not ended, and nobody deletes it.
    pub(super) fn is_about_to_end(&self) -> bool {
        !self.over && self.ended.is_none() && self.pod.metadata.deletion_timestamp.is_none()
    }

    /// Why the pod failed, if it did: the runner's end, else another container's, else the
    /// kubelet's reason (an eviction).
    pub(super) fn failure(&self) -> Option<Failure> {
        if let Some(ended) = self.ended.as_ref().filter(|ended| ended.exit_code != 0) {
            return Some(self.runner_failure(ended));
        }
        let status = self.pod.status.as_ref()?;
        if status.phase.as_deref() != Some("Failed") {
            return None;
        }
        if let Some(reason) = &status.reason {
            let message = status.message.clone().unwrap_or_default();
            return Some(Failure { reason: camel_case(reason), message });
        }
        let message = self.failed_container()?;
        Some(Failure { reason: "ContainerFailed".to_owned(), message })
    }

    /// The container beside the runner that has failed, if one has, with what it left.
    pub(super) fn failed_container(&self) -> Option<String> {
        let beside = |container: &&ContainerStatus| container.name != self.runner;
        let failed = containers(self.pod.status.as_ref()).filter(beside).find_map(|container| {
            Some((container, terminated(container)?)).filter(|(_, end)| end.exit_code != 0)
        });
        let (container, end) = failed?;
        let text = end.message.as_deref().unwrap_or_default();
        // The agent's own document, or whatever else the container left.
        let said = match TerminationMessage::from_json(text) {
            Some(message) => message.last_error.unwrap_or_default(),
            None => last_line(text).to_owned(),
        };
        let separator = if said.is_empty() { "" } else { ": " };
        let (name, code) = (&container.name, end.exit_code);
        Some(format!("container {name} exited with code {code}{separator}{said}"))
    }

    fn runner_failure(&self, ended: &Ended) -> Failure {
        let code = ended.exit_code;
        match &ended.message {
            // The kubelet knows why a command was ended that can only say that it was.
            Some(message)
                if message.command_ran && ended.reason.as_deref() == Some(OUT_OF_MEMORY) =>
            {
                Failure {
                    reason: OUT_OF_MEMORY.to_owned(),
                    message: format!(
                        "command exited with code {code}: container {} ran out of the memory that its \
                         limits allow",
                        self.runner
                    ),
                }
            }
            Some(message) if message.command_ran => Failure {
                reason: "CommandFailed".to_owned(),
                message: with_error(
                    message.signal.map_or_else(
                        || format!("command exited with code {code}"),
                        |signal| format!("command was ended by signal {signal} (exit code {code})"),
                    ),
                    message,
                ),
            },
            // It was run, and ended.
            Some(TerminationMessage { last_error: Some(error), .. })
                if Exit::from_code(code) == Some(Exit::Deadline) =>
            {
                Failure { reason: Exit::Deadline.reason().to_owned(), message: error.clone() }
            }
            Some(message) => Failure {
                reason: Exit::from_code(code).map_or("AgentFailed", Exit::reason).to_owned(),
                message: with_error(format!("the command was not run (exit code {code})"), message),
            },
            None => {
                let word = ended.reason.as_deref().unwrap_or("Error");
                let reason = if word == "Error" { "ContainerFailed" } else { word };
                Failure {
                    reason: camel_case(reason),
                    message: format!("container {} exited with code {code} ({word})", self.runner),
                }
            }
        }
    }
}

fn with_error(text: String, message: &TerminationMessage) -> String {
    match message.last_error.as_deref() {
        Some(error) if !error.is_empty() => format!("{text}: {error}"),
        Some(_) | None => text,
    }
}

/// Reasons must be `CamelCase`; the kubelet's are, but a runtime may say anything.
fn camel_case(reason: &str) -> String {
    let fits = reason.starts_with(|c: char| c.is_ascii_alphabetic())
        && reason.chars().all(|c| c.is_ascii_alphanumeric());
    if fits { reason.to_owned() } else { "ContainerFailed".to_owned() }
}

fn last_line(text: &str) -> &str {
    text.trim_end().lines().last().unwrap_or_default()
}

/// Main containers first: what ended them matters more than an init container's end.
fn containers(status: Option<&PodStatus>) -> impl Iterator<Item = &ContainerStatus> {
    let main = status.and_then(|status| status.container_statuses.as_ref());
    let init = status.and_then(|status| status.init_container_statuses.as_ref());
    main.into_iter().flatten().chain(init.into_iter().flatten())
}

fn terminated(container: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    container.state.as_ref()?.terminated.as_ref()
}

fn pod_condition<'pod>(status: Option<&'pod PodStatus>, type_: &str) -> Option<&'pod PodCondition> {
    status?.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

/// What keeps a pod from running: no node, no image, a container that does not start.
fn waiting(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let name = pod.name_any();
    if let Some(scheduled) = pod_condition(Some(status), "PodScheduled")
        && scheduled.status == "False"
    {
        let message = scheduled.message.as_deref().unwrap_or("not scheduled");
        return Some(format!("pod {name} has no node: {message}"));
    }
    containers(Some(status)).find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref().filter(|reason| !PATIENT.contains(reason))?;
        let message = waiting.message.as_deref().unwrap_or_default();
        Some(format!("pod {name}, container {}: {reason} {message}", container.name))
    })
}
