//! Messages why pods do not start, from the pods' statuses and Events.

use crate::controller::pod_ext::{condition, containers, phase};
use flux_api::waiting::of_pod as status_reason;
use flux_contract::obstacle::{Obstacle, ObstacleCause};
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use std::time::Duration;

/// A wait longer than this becomes an Event: a shorter one is part of most starts.
pub(crate) const PERSISTENT_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) message: String,
    /// True once the wait is longer than [`PERSISTENT_AFTER`].
    pub(crate) is_persistent: bool,
}

impl Waiting {
    /// Adds the remedy if the pods of the MiniCluster `name` miss the Secret with the certificate.
    pub(crate) fn with_remedy(mut self, name: &str) -> Self {
        let volume = format!("volume \"{name}-curve\"");
        if self.message.contains(&volume) && self.message.contains("not found") {
            self.message += "; this Secret was deleted, and the operator does not create another one, because the running \
                             brokers would refuse its key. Create it again if you have a copy (spec.flux.curveCertSecret), \
                             else delete and create the MiniCluster";
        }
        self
    }
}

/// Number of pods whose Events are read because their statuses do not show why they do not start.
pub(crate) const EVENT_PODS: usize = 4;

/// Why the first of `pods` with a known reason does not start, and how many others have the same reason. `warnings`
/// are Warning Events of the first [`EVENT_PODS`] pods whose statuses have no reason ([`gives_no_reason`]).
pub(crate) fn waiting(pods: &[Pod], warnings: &[Event], now: &Time) -> Option<Waiting> {
    let reasons: Vec<(&Pod, String)> = pods
        .iter()
        .filter_map(|pod| Some((pod, status_reason(pod).or_else(|| event_reason(pod, warnings))?)))
        .collect();
    let (pod, text) = reasons.first()?;
    let others = reasons[1..].iter().filter(|(_, other)| other == text).count();
    // If the Events of all pods that were read have the same reason, the other pods without a reason are counted too.
    let unexplained: Vec<&Pod> = pods.iter().filter(|pod| gives_no_reason(pod)).collect();
    let mut with_events = unexplained.iter().take(EVENT_PODS);
    let agreed = with_events.all(|pod| event_reason(pod, warnings).as_ref() == Some(text));
    let others = others + if agreed { unexplained.len().saturating_sub(EVENT_PODS) } else { 0 };
    let more = match others {
        0 => String::new(),
        1 => "; and 1 more pod".to_owned(),
        others => format!("; and {others} more pods"),
    };
    let message = format!("pod {} {text}{more}", pod.name_any());
    Some(Waiting { message, is_persistent: is_persistent(pod, now) })
}

/// Why the lead does not start, if its status has the reason; `others` is the number of other pods that are not ready.
pub(crate) fn lead_waiting(lead: &Pod, others: i32, now: &Time) -> Option<Waiting> {
    let pending = Some(lead).filter(|lead| phase(lead) == Some("Pending"))?;
    let lead_waiting = waiting(std::slice::from_ref(pending), &[], now)?;
    let more = match others {
        ..=0 => String::new(),
        1 => "; and 1 more pod is not ready".to_owned(),
        others => format!("; and {others} more pods are not ready"),
    };
    Some(Waiting { message: lead_waiting.message + &more, ..lead_waiting })
}

/// Why the broker of `pod` does not join its lead in another MiniCluster, with the remedy.
pub(crate) fn cannot_join(pod: &Pod, obstacle: &Obstacle, now: &Time) -> Waiting {
    let remedy = match obstacle.cause {
        ObstacleCause::Address => {
            "; check leadBroker.address, and that packets can pass from the pods here to it"
        }
        ObstacleCause::Port => {
            "; check leadBroker.port, that the lead runs, and that its Service leads to it"
        }
        ObstacleCause::Certificate => {
            "; give this MiniCluster the certificate of the lead (flux.curveCertSecret), and delete and create it"
        }
        ObstacleCause::Broker => {
            "; its log or that of the lead shows why. Mostly one side has another release of Flux \
             (`flux --version`: the first two numbers must be the same: flux.container.image), or another list of \
             hosts (flux.bursting)"
        }
        ObstacleCause::Other => "",
    };
    let message =
        format!("pod {} has not joined the lead: {}{remedy}", pod.name_any(), obstacle.message);
    Waiting { message, is_persistent: is_persistent(pod, now) }
}

/// Why `pod` has ended before it was started, with a remedy.
pub(crate) fn not_started(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let reason = status.and_then(|status| status.reason.as_deref());
    let message = status.and_then(|status| status.message.as_deref());
    let why = match (reason, message) {
        (Some(reason), message) => format!("{reason}: {}", message.unwrap_or_default()),
        (None, _) => "it was deleted".to_owned(),
    };
    let remedy = reason.map(remedy).unwrap_or_default();
    format!(
        "pod {} has ended before it was started: {why}{remedy}; the Job controller replaces it",
        pod.name_any()
    )
}

/// The remedy if a kubelet refuses a pod for `reason`, as the end of a sentence.
pub(crate) fn remedy(reason: &str) -> &'static str {
    match reason {
        "NodeAffinity" | "NodeName" => "; spec.pod.nodeSelector and the labels of the node differ",
        "UnexpectedAdmissionError" => {
            "; `kubectl describe node` shows what devices and cores the node has"
        }
        _ if reason.starts_with("OutOf") => {
            "; spec.containers[].resources asks for more than is left on the node: ask for less, or for other nodes \
             by spec.pod.nodeSelector"
        }
        _ => "",
    }
}

/// True when `pod` has a node, no container has begun, and only Events can have the reason, as for a missing volume.
pub(crate) fn gives_no_reason(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let begun = |container: &ContainerStatus| {
        let state = container.state.as_ref();
        state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    phase(pod) == Some("Pending")
        && condition(status, "PodScheduled").is_some_and(|it| it.status == "True")
        && status_reason(pod).is_none()
        && !containers(status).any(begun)
}

fn event_reason(pod: &Pod, events: &[Event]) -> Option<String> {
    warning(pod.metadata.uid.as_deref()?, events).filter(|_| gives_no_reason(pod))
}

/// The message of the newest of `events` about the pod with this uid, without the subject.
pub(crate) fn warning(uid: &str, events: &[Event]) -> Option<String> {
    let about = |event: &&Event| {
        event.involved_object.uid.as_deref() == Some(uid)
            && event.reason.as_deref() != Some("FailedScheduling")
    };
    let newest = events.iter().filter(about).max_by_key(|event| event_time(event))?;
    let reason = newest.reason.as_deref().unwrap_or("Warning");
    let message = newest.message.as_deref().unwrap_or_default().trim_end();
    Some(format!("does not start: {reason}: {message}"))
}

pub(crate) fn event_time(event: &Event) -> Option<jiff::Timestamp> {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let series = series.map(|time| time.0);
    let time = event.event_time.as_ref().map(|time| time.0);
    last.or(series).or(time).or_else(|| event.creation_timestamp().map(|time| time.0))
}

fn is_persistent(pod: &Pod, now: &Time) -> bool {
    let waited = |since: &Time| now.0.duration_since(since.0).unsigned_abs();
    pod.creation_timestamp().is_none_or(|since| waited(&since) >= PERSISTENT_AFTER)
}
