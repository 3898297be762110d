//! `spec.pod`.

mod overlay;

use super::{
    architecture::{ARCHITECTURE_LABEL, architecture},
    faults::Faults,
    text::{non_empty, non_empty_owned},
};
use crate::{cluster::Pod, crd::MiniClusterSpec};
use flux_contract::Shutdown;
use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Volume,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Resolves and checks what all pods have in common; `volumes` are the user's.
pub(super) fn pod(spec: &MiniClusterSpec, volumes: Vec<Volume>, faults: &mut Faults) -> Pod {
    let pod = &spec.pod;
    overlay(spec, faults);
    Pod {
        labels: pod.labels.clone(),
        annotations: pod.annotations.clone(),
        resources: pod.resources.clone(),
        // A failed command is not to be run again behind the user's back.
        restart_policy: non_empty(pod.restart_policy.as_ref()).unwrap_or("Never").to_owned(),
        service_account_name: non_empty_owned(pod.service_account_name.as_ref()),
        runtime_class_name: non_empty_owned(pod.runtime_class_name.as_ref()),
        automount_service_account_token: pod.automount_service_account_token,
        scheduler_name: non_empty_owned(pod.scheduler_name.as_ref()),
        node_selector: node_selector(spec, faults),
        node_affinity: node_affinity(spec),
        tolerations: pod.tolerations.clone(),
        dns_policy: non_empty_owned(pod.dns_policy.as_ref()),
        grace_seconds: grace_seconds(spec, faults),
        host_ipc: pod.host_ipc,
        host_pid: pod.host_pid,
        share_process_namespace: spec.share_process_namespace,
        security_context: pod.security_context.clone(),
        overlay: pod.overlay.clone(),
        volumes,
    }
}

/// The labels a node must have: the user's, and the architecture's.
fn node_selector(spec: &MiniClusterSpec, faults: &mut Faults) -> BTreeMap<String, String> {
    let mut labels = spec.pod.node_selector.clone();
    let Some(text) = non_empty(spec.flux.arch.as_ref()) else { return labels };
    let Some(architecture) = architecture(&spec.flux) else { return labels };
    let label = architecture.label();
    let other = labels.insert(ARCHITECTURE_LABEL.to_owned(), label.to_owned());
    faults.require(other.as_deref().is_none_or(|other| other == label), "spec.flux.arch", || {
        format!("{text:?} is not what pod.nodeSelector[{ARCHITECTURE_LABEL}] asks for: keep one")
    });
    labels
}

fn node_affinity(spec: &MiniClusterSpec) -> Option<NodeAffinity> {
    let requirement = |(key, values): (&String, &Vec<String>)| NodeSelectorRequirement {
        key: key.clone(),
        operator: "In".to_owned(),
        values: Some(values.clone()),
    };
    let requirements: Vec<_> = spec.pod.node_affinity.iter().map(requirement).collect();
    if requirements.is_empty() || spec.network.disable_affinity {
        return None;
    }
    let term = NodeSelectorTerm { match_expressions: Some(requirements), match_fields: None };
    Some(NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(NodeSelector {
            node_selector_terms: vec![term],
        }),
        ..NodeAffinity::default()
    })
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
