//! `spec.pod`.

mod affinity;
mod overlay;

use super::{
    faults::Faults,
    flux::architecture,
    pod_parts::non_empty_list,
    text::{non_empty, non_empty_owned},
};
use crate::{cluster::Pod, crd::MiniClusterSpec};
use affinity::affinity;
use flux_contract::Shutdown;
use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use serde_json::Value;
use std::collections::BTreeMap;

/// Resolves and checks what the specification says of the Job's pods; `pod` is that without what only these have.
pub(super) fn pod(name: &str, spec: &MiniClusterSpec, pod: PodSpec, faults: &mut Faults) -> Pod {
    let given = &spec.pod;
    overlay(spec, faults);
    let grace_seconds = grace_seconds(spec, faults);
    // A failed command is not to be run again behind the user's back.
    let restart_policy = non_empty(given.restart_policy.as_ref()).unwrap_or("Never");
    let resources = Some(given.resources.clone()).filter(|resources| !resources.is_empty());
    // An overhead without a runtime class that defines the same one makes the API server refuse every
    // pod, so without a class the resources are the pod's own.
    let (overhead, requests) =
        if pod.runtime_class_name.is_some() { (resources, None) } else { (None, resources) };
    Pod {
        labels: given.labels.clone(),
        annotations: given.annotations.clone(),
        grace_seconds,
        overlay: given.overlay.clone(),
        spec: PodSpec {
            affinity: affinity(name, spec),
            overhead,
            resources: requests.map(|it| ResourceRequirements {
                requests: Some(it),
                ..ResourceRequirements::default()
            }),
            restart_policy: Some(restart_policy.to_owned()),
            termination_grace_period_seconds: (grace_seconds != Shutdown::DEFAULT_GRACE_SECONDS)
                .then(|| i64::try_from(grace_seconds).unwrap_or(i64::MAX)),
            ..pod
        },
    }
}

/// What the Job's pods and that of `spec.services` have in common.
pub(super) fn common(spec: &MiniClusterSpec, headless_name: &str, faults: &mut Faults) -> PodSpec {
    let pod = &spec.pod;
    PodSpec {
        // No container needs the API unless the user says so.
        automount_service_account_token: Some(pod.automount_service_account_token),
        dns_policy: non_empty_owned(pod.dns_policy.as_ref()),
        // A namespace with many Services would fill the environment with their addresses.
        enable_service_links: Some(false),
        host_ipc: pod.host_ipc.then_some(true),
        host_pid: pod.host_pid.then_some(true),
        node_selector: Some(node_selector(spec, faults)).filter(|labels| !labels.is_empty()),
        runtime_class_name: non_empty_owned(pod.runtime_class_name.as_ref()),
        scheduler_name: non_empty_owned(pod.scheduler_name.as_ref()),
        security_context: pod.security_context.clone(),
        service_account_name: non_empty_owned(pod.service_account_name.as_ref()),
        // A rank is found by the plain host name, `<name>-<index>`.
        set_hostname_as_fqdn: Some(false),
        share_process_namespace: spec.share_process_namespace.then_some(true),
        subdomain: Some(headless_name.to_owned()),
        tolerations: non_empty_list(pod.tolerations.clone()),
        ..PodSpec::default()
    }
}

/// Label of its architecture that every node carries (well-known labels of Kubernetes).
const ARCHITECTURE_LABEL: &str = "kubernetes.io/arch";

/// The labels a node must have: the user's, and the architecture's.
fn node_selector(spec: &MiniClusterSpec, faults: &mut Faults) -> BTreeMap<String, String> {
    let mut labels = spec.pod.node_selector.clone();
    let Some(label) = architecture(&spec.flux) else { return labels };
    let other = labels.insert(ARCHITECTURE_LABEL.to_owned(), label.to_owned());
    faults.require(other.as_deref().is_none_or(|other| other == label), "spec.flux.arch", || {
        let text = spec.flux.arch.as_deref().unwrap_or_default();
        format!("{text:?} is not what pod.nodeSelector[{ARCHITECTURE_LABEL}] asks for: keep one")
    });
    labels
}

fn overlay(spec: &MiniClusterSpec, faults: &mut Faults) {
    let Some(overlay) = &spec.pod.overlay else { return };
    match serde_json::from_value::<PodSpec>(overlay.clone()) {
        Ok(read) => overlay::check(spec, &read, faults),
        Err(error) => {
            faults.add("spec.pod.overlay", format!("not the fields of a PodSpec: {error}"));
        }
    }
}

/// What the kubelet gives a pod to end, in seconds.
fn grace_seconds(spec: &MiniClusterSpec, faults: &mut Faults) -> u64 {
    let overlay = spec.pod.overlay.as_ref();
    let overlay = overlay.and_then(|overlay| overlay.get("terminationGracePeriodSeconds"));
    let overlay = overlay.and_then(Value::as_u64);
    let path = "spec.flux.drainSeconds";
    let drain = spec.flux.drain_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    if let (Some(drain), Some(overlay)) = (drain, overlay) {
        faults.require(drain == overlay, path, || {
            format!("{drain} is not what pod.overlay.terminationGracePeriodSeconds says, {overlay}: they are the same, keep one")
        });
    }
    drain.or(overlay).unwrap_or(Shutdown::DEFAULT_GRACE_SECONDS)
}
