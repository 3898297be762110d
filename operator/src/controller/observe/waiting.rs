//! Why pods do not start, in Kubernetes' own words.

use crate::controller::pod_ext::{condition, containers, phase};
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use std::time::Duration;

/// Waiting reasons that only say that it is not yet time.
const NOT_YET: [&str; 2] = ["PodInitializing", "ContainerCreating"];

/// What waits longer is worth an Event: a node may just have been a moment late.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) message: String,
    pub(crate) lasts: bool,
}

impl Waiting {
    /// With what helps where the Secret of the certificate is gone from the MiniCluster `name`.
    pub(crate) fn with_remedy(mut self, name: &str) -> Self {
        let volume = format!("volume \"{name}-curve\"");
        if self.message.contains(&volume) && self.message.contains("not found") {
            self.message += "; somebody has deleted this Secret, and the operator makes no other, because the brokers that \
                             run would refuse its key. Create it again if you have a copy (spec.flux.curveCertSecret), \
                             else delete and create the MiniCluster";
        }
        self
    }
}

/// Pods of which the Events are read when they themselves do not say why they do not start.
pub(crate) const SILENT_LIMIT: usize = 4;

/// What keeps the first of `pods` that says so from starting; `refusals` are Warning Events of the
/// first [`SILENT_LIMIT`] that say nothing themselves ([`is_silent`]).
pub(crate) fn waiting(pods: &[Pod], refusals: &[Event], now: &Time) -> Option<Waiting> {
    let said: Vec<(&Pod, String)> = pods
        .iter()
        .filter_map(|pod| Some((pod, hindrance(pod).or_else(|| refusal(pod, refusals))?)))
        .collect();
    let (pod, text) = said.first()?;
    let others = said[1..].iter().filter(|(_, other)| other == text).count();
    // Where all silent pods that were asked say the same, those that were not are no others.
    let silent: Vec<&Pod> = pods.iter().filter(|pod| is_silent(pod)).collect();
    let mut asked = silent.iter().take(SILENT_LIMIT);
    let agreed = asked.all(|pod| refusal(pod, refusals).as_ref() == Some(text));
    let others = others + if agreed { silent.len().saturating_sub(SILENT_LIMIT) } else { 0 };
    let more = match others {
        0 => String::new(),
        1 => "; and 1 more pod".to_owned(),
        others => format!("; and {others} more pods"),
    };
    let message = format!("pod {} {text}{more}", pod.name_any());
    Some(Waiting { message, lasts: has_lasted(pod, now) })
}

/// What keeps the lead from starting, where it says so itself. Of the `others` it is known that they are not ready.
pub(crate) fn lead_waiting(lead: &Pod, others: i32, now: &Time) -> Option<Waiting> {
    let pending = Some(lead).filter(|lead| phase(lead) == Some("Pending"))?;
    let said = waiting(std::slice::from_ref(pending), &[], now)?;
    let more = match others {
        ..=0 => String::new(),
        1 => "; and 1 more pod is not ready".to_owned(),
        others => format!("; and {others} more pods are not ready"),
    };
    Some(Waiting { message: said.message + &more, ..said })
}

/// What `pod` itself says keeps it from starting, in one sentence that begins with a verb: no node,
/// no image, a container that does not start.
fn hindrance(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    if let Some(scheduled) = condition(status, "PodScheduled").filter(|it| it.status == "False") {
        let message = scheduled.message.as_deref().unwrap_or("not scheduled");
        return Some(format!("has no node: {message}"));
    }
    containers(status).find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref().filter(|reason| !NOT_YET.contains(reason))?;
        let message = waiting.message.as_deref().unwrap_or_default();
        Some(format!("does not start container {}: {reason} {message}", container.name))
    })
}

/// Why `pod` has ended before it was started, and what helps.
pub(crate) fn not_started(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let reason = status.and_then(|status| status.reason.as_deref());
    let message = status.and_then(|status| status.message.as_deref());
    let why = match (reason, message) {
        (Some(reason), message) => format!("{reason}: {}", message.unwrap_or_default()),
        (None, _) => "somebody has deleted it".to_owned(),
    };
    let remedy = reason.map(remedy).unwrap_or_default();
    format!(
        "pod {} has ended before it was started: {why}{remedy}; the Job makes another",
        pod.name_any()
    )
}

/// What helps where a kubelet refuses a pod for `reason`, as the end of a sentence.
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

/// True when `pod` has a node, none of its containers has begun, and it does not say why: only its
/// Events do (a volume that cannot be mounted, an address that cannot be had).
pub(crate) fn is_silent(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let begun = |container: &ContainerStatus| {
        let state = container.state.as_ref();
        state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    phase(pod) == Some("Pending")
        && condition(status, "PodScheduled").is_some_and(|it| it.status == "True")
        && hindrance(pod).is_none()
        && !containers(status).any(begun)
}

fn refusal(pod: &Pod, events: &[Event]) -> Option<String> {
    warning(pod.metadata.uid.as_deref()?, events).filter(|_| is_silent(pod))
}

/// What the newest of `events` about the pod with this uid says, in one sentence that begins with a verb.
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

fn has_lasted(pod: &Pod, now: &Time) -> bool {
    let waited = |since: &Time| now.0.duration_since(since.0).unsigned_abs();
    pod.creation_timestamp().is_none_or(|since| waited(&since) >= PATIENCE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(name: &str, status: &Value) -> Pod {
        let metadata = json!({
            "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z",
        });
        serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap()
    }

    fn unschedulable(name: &str, message: &str) -> Pod {
        let condition = json!({ "type": "PodScheduled", "status": "False", "message": message });
        pod(name, &json!({ "phase": "Pending", "conditions": [condition] }))
    }

    fn scheduled(name: &str, state: &Value) -> Pod {
        let container = json!({
            "name": "flux-agent", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": state,
        });
        let conditions = [json!({ "type": "PodScheduled", "status": "True" })];
        let containers = [container];
        pod(
            name,
            &json!({
                "phase": "Pending", "conditions": conditions, "initContainerStatuses": containers,
            }),
        )
    }

    fn silent(name: &str) -> Pod {
        scheduled(name, &json!({ "waiting": { "reason": "PodInitializing" } }))
    }

    fn event(pod: &str, reason: &str, second: u8, message: &str) -> Event {
        serde_json::from_value(json!({
            "metadata": { "name": "e" }, "involvedObject": { "uid": pod }, "reason": reason,
            "lastTimestamp": format!("2026-01-01T00:00:{second:02}Z"), "message": message,
        }))
        .unwrap()
    }

    /// What is said `seconds` after the pods were made.
    fn said(pods: &[Pod], events: &[Event], seconds: i64) -> Option<(String, bool)> {
        let begin: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let now = Time(begin + jiff::SignedDuration::from_secs(seconds));
        waiting(pods, events, &now).map(|waiting| (waiting.message, waiting.lasts))
    }

    #[test]
    fn the_message_quotes_kubernetes_and_counts_the_other_pods() {
        let full = "0/1 nodes are available: 1 Insufficient cpu.";
        let pods = [
            silent("hello-0-a"),
            unschedulable("hello-2-c", full),
            unschedulable("hello-3-d", full),
            unschedulable("hello-4-e", "something else"),
        ];
        let expected = format!("pod hello-2-c has no node: {full}; and 1 more pod");
        assert_eq!(said(&pods, &[], 9), Some((expected.clone(), false)));
        assert_eq!(said(&pods, &[], 10), Some((expected, true)));
        let state = json!({ "waiting": { "reason": "ErrImagePull", "message": "not found" } });
        let expected = "pod hello-1-b does not start container flux-agent: ErrImagePull not found";
        let found = said(&[scheduled("hello-1-b", &state)], &[], 1);
        assert_eq!(found, Some((expected.to_owned(), false)));
    }

    #[test]
    fn a_waiting_lead_counts_the_pods_that_are_not_ready() {
        let full = "0/1 nodes are available: 1 Insufficient cpu.";
        let lead = unschedulable("hello-0-a", full);
        let told = |others| lead_waiting(&lead, others, &Time(jiff::Timestamp::MAX)).unwrap();
        for (others, more) in [
            (0, ""),
            (1, "; and 1 more pod is not ready"),
            (4999, "; and 4999 more pods are not ready"),
        ] {
            let message = format!("pod hello-0-a has no node: {full}{more}");
            assert_eq!(told(others), Waiting { message, lasts: true });
        }
        assert_eq!(lead_waiting(&silent("hello-0-a"), 3, &Time(jiff::Timestamp::MAX)), None);
    }

    #[test]
    fn the_newest_warning_explains_a_failed_mount() {
        let names = ["hello-0-a", "hello-1-b", "hello-2-c", "hello-3-d", "hello-4-e", "hello-5-f"];
        let pods = names.map(silent);
        let refused = |pod| event(pod, "FailedMount", 2, "secret \"nosuch\" not found");
        let events = [
            refused(names[0]),
            refused(names[1]),
            refused(names[2]),
            refused(names[3]),
            event("hello-0-a", "FailedMount", 1, "older"),
            event("hello-0-a", "FailedScheduling", 9, "before it had its node"),
            event("another", "FailedMount", 9, "of another pod"),
        ];
        let told = "pod hello-0-a does not start: FailedMount: secret \"nosuch\" not found";
        // Of four of six the Events were read; where one of them says nothing, the others may start.
        for (events, others) in [(&events[..], 5), (&events[..3], 2)] {
            let expected = (format!("{told}; and {others} more pods"), true);
            assert_eq!(said(&pods, events, 30), Some(expected));
        }
    }

    #[test]
    fn a_missing_certificate_secret_has_a_remedy() {
        let mount = |volume: &str| {
            let message = format!(
                "MountVolume.SetUp failed for volume \"{volume}\" : secret \"x\" not found"
            );
            Waiting { message, lasts: true }.with_remedy("hello").message
        };
        assert!(mount("hello-curve").ends_with("delete and create the MiniCluster"));
        assert!(mount("data").ends_with("not found"));
    }

    #[test]
    fn a_pod_that_only_takes_time_gives_no_message() {
        let begun = scheduled("hello-0-a", &json!({ "running": {} }));
        let stale = event("hello-0-a", "FailedMount", 1, "mended since");
        assert_eq!(said(&[begun, silent("hello-1-b")], &[stale], 30), None);
        assert_eq!(said(&[], &[], 30), None);
    }
}
