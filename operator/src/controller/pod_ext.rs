//! Functions on a pod and its containers.

use flux_contract::invocation::REPLACED_VARIABLES;
use k8s_openapi::api::core::v1::{
    ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use std::time::Duration;

/// Longest time from the `startTime` of a pod to the API server's time of the kubelet's first status write.
const STATUS_DELAY: Duration = Duration::from_secs(2);

/// True when the broker in `pod` is ready, even if a sidecar is not.
pub(super) fn broker_is_ready(pod: &Pod, runner: &str) -> bool {
    let mut all = pod.status.iter().flat_map(containers);
    all.any(|container| container.name == runner && container.ready)
}

pub(super) fn end_of<'pod>(
    pod: &'pod Pod,
    container: &str,
) -> Option<&'pod ContainerStateTerminated> {
    let found = pod.status.iter().flat_map(containers).find(|it| it.name == container)?;
    found.state.as_ref()?.terminated.as_ref()
}

/// For a message: the main containers of `pod` that still run after the container `runner` has ended.
pub(super) fn running_beside(pod: &Pod, runner: &str) -> Option<String> {
    end_of(pod, runner)?;
    let all = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let runs = |it: &&ContainerStatus| it.state.as_ref().is_some_and(|it| it.running.is_some());
    let names: Vec<&str> = all.filter(runs).map(|container| container.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("{} of pod {}", names.join(", "), pod.name_any()))
}

/// True when the pod has failed and its runner was certainly never started.
pub(super) fn is_unstarted(pod: &Pod, runner: &str) -> bool {
    let Some(status) = pod.status.as_ref().filter(|_| has_failed(pod)) else { return false };
    match containers(status).find(|container| container.name == runner) {
        Some(container) => was_never_created(container),
        // The kubelet refuses a new pod, or, after its own restart, a running pod (`rejectPod`). Either way it
        // removes all container statuses and conditions. The start time is that of the first status write.
        None => match &status.start_time {
            Some(start) => last_status_write(pod)
                .is_some_and(|end| end.0.duration_since(start.0).unsigned_abs() <= STATUS_DELAY),
            // Without a node no kubelet has had the pod.
            None => condition(status, "PodScheduled").is_none_or(|it| it.status != "True"),
        },
    }
}

/// True for a failed pod without container statuses: a kubelet may have refused it.
pub(super) fn leaves_no_container(pod: &Pod) -> bool {
    has_failed(pod) && pod.status.iter().flat_map(containers).next().is_none()
}

/// Time of the last status write, by the API server's clock.
fn last_status_write(pod: &Pod) -> Option<&Time> {
    let entries = pod.metadata.managed_fields.iter().flatten();
    let of_status = entries.filter(|entry| entry.subresource.as_deref() == Some("status"));
    of_status.filter_map(|entry| entry.time.as_ref()).max_by_key(|time| time.0)
}

/// True for a container that the kubelet never created. The kubelet reports such a container as terminated all the
/// same (`TerminatePod` of its status manager).
fn was_never_created(container: &ContainerStatus) -> bool {
    let state = container.state.clone().unwrap_or_default();
    let reported_as_ended = |end: &ContainerStateTerminated| {
        end.started_at.is_none() && end.reason.as_deref() == Some("ContainerStatusUnknown")
    };
    container.container_id.is_none()
        && container.restart_count == 0
        && container.last_state.as_ref().is_none_or(|last| last.terminated.is_none())
        && state.running.is_none()
        && state.terminated.as_ref().is_none_or(reported_as_ended)
}

/// How many pods of the same index the Job controller had replaced when it made this one.
pub(super) fn replaced_before(pod: &Pod) -> u32 {
    let count = |(_, key): &(&str, &str)| pod.annotations().get(*key)?.parse::<u32>().ok();
    REPLACED_VARIABLES.iter().filter_map(count).sum()
}

/// The condition by which Kubernetes reports that it removes the pod (KEP-3329).
pub(super) fn disruption(pod: &Pod) -> Option<&PodCondition> {
    condition(pod.status.as_ref()?, "DisruptionTarget").filter(|it| it.status == "True")
}

pub(super) fn has_failed(pod: &Pod) -> bool {
    phase(pod) == Some("Failed")
}

pub(super) fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

/// The main containers, then the init containers: why a main container waits matters more.
pub(super) fn containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let main = status.container_statuses.iter().flatten();
    main.chain(status.init_container_statuses.iter().flatten())
}

pub(super) fn condition<'pod>(status: &'pod PodStatus, type_: &str) -> Option<&'pod PodCondition> {
    status.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}
