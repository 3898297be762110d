//! `spec.pod`.

mod overlay;

use super::{
    architecture::{ARCHITECTURE_LABEL, architecture},
    faults::Faults,
    quantity::is_quantity,
    text::{given, is_label_key, is_label_value, is_object_name, owned},
};
use crate::{cluster::Pod, crd::MiniClusterSpec};
use flux_contract::Shutdown;
use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Volume,
};
use serde_json::Value;
use std::collections::BTreeMap;

const DNS_POLICIES: [&str; 4] = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];

/// Resolves and checks what all pods have in common; `volumes` are the user's.
pub(super) fn pod(spec: &MiniClusterSpec, volumes: Vec<Volume>, faults: &mut Faults) -> Pod {
    let pod = &spec.pod;
    labels("spec.pod.labels", &pod.labels, faults);
    labels("spec.pod.nodeSelector", &pod.node_selector, faults);
    for key in pod.annotations.keys() {
        faults.require(
            is_label_key(&key.to_ascii_lowercase()),
            format!("spec.pod.annotations[{key}]"),
            || format!("{key:?} cannot be the key of an annotation"),
        );
    }
    for (name, quantity) in &pod.resources {
        faults.require(is_quantity(&quantity.0), format!("spec.pod.resources[{name}]"), || {
            format!("{:?} is not a quantity: write e.g. 4, 500m or 2Gi", quantity.0)
        });
    }
    objects(spec, faults);
    overlay(spec, faults);
    Pod {
        labels: pod.labels.clone(),
        annotations: pod.annotations.clone(),
        resources: pod.resources.clone(),
        restart_policy: restart_policy(pod.restart_policy.as_ref(), faults),
        service_account_name: owned(pod.service_account_name.as_ref()),
        runtime_class_name: owned(pod.runtime_class_name.as_ref()),
        automount_service_account_token: pod.automount_service_account_token,
        scheduler_name: owned(pod.scheduler_name.as_ref()),
        node_selector: node_selector(spec, faults),
        node_affinity: node_affinity(spec, faults),
        tolerations: pod.tolerations.clone(),
        dns_policy: dns_policy(pod.dns_policy.as_ref(), faults),
        grace_seconds: grace_seconds(spec, faults),
        host_ipc: pod.host_ipc,
        host_pid: pod.host_pid,
        share_process_namespace: spec.share_process_namespace,
        security_context: pod.security_context.clone(),
        overlay: pod.overlay.clone(),
        volumes,
    }
}

/// `Never` unless given: a failed command is not to be run again behind the user's back.
fn restart_policy(policy: Option<&String>, faults: &mut Faults) -> String {
    let policy = given(policy).unwrap_or("Never");
    faults.require(matches!(policy, "Never" | "OnFailure"), "spec.pod.restartPolicy", || {
        format!("{policy:?} is not possible in a Job: use Never or OnFailure")
    });
    policy.to_owned()
}

fn dns_policy(policy: Option<&String>, faults: &mut Faults) -> Option<String> {
    let policy = given(policy)?;
    faults.require(DNS_POLICIES.contains(&policy), "spec.pod.dnsPolicy", || {
        format!("{policy:?} is no DNS policy: use {}", DNS_POLICIES.join(", "))
    });
    Some(policy.to_owned())
}

/// Fields that name another object.
fn objects(spec: &MiniClusterSpec, faults: &mut Faults) {
    let pod = &spec.pod;
    let names = [
        ("serviceAccountName", &pod.service_account_name),
        ("runtimeClassName", &pod.runtime_class_name),
        ("schedulerName", &pod.scheduler_name),
    ];
    for (field, name) in names {
        if let Some(name) = given(name.as_ref()) {
            faults.require(is_object_name(name), format!("spec.pod.{field}"), || {
                format!("{name:?} cannot be the name of an object")
            });
        }
    }
    faults.require(!(spec.share_process_namespace && pod.host_pid), "spec.pod.hostPID", || {
        "excludes shareProcessNamespace: keep one".to_owned()
    });
}

/// The labels a node must have: the user's, and the architecture's.
fn node_selector(spec: &MiniClusterSpec, faults: &mut Faults) -> BTreeMap<String, String> {
    let mut labels = spec.pod.node_selector.clone();
    let Some(text) = given(spec.flux.arch.as_ref()) else { return labels };
    let Some(architecture) = architecture(&spec.flux) else {
        faults.add(
            "spec.flux.arch",
            format!("{text:?} is no architecture: use amd64 (x86_64) or arm64 (arm, aarch64)"),
        );
        return labels;
    };
    let label = architecture.label();
    let other = labels.insert(ARCHITECTURE_LABEL.to_owned(), label.to_owned());
    faults.require(other.as_deref().is_none_or(|other| other == label), "spec.flux.arch", || {
        format!("{text:?} is not what pod.nodeSelector[{ARCHITECTURE_LABEL}] asks for: keep one")
    });
    labels
}

fn node_affinity(spec: &MiniClusterSpec, faults: &mut Faults) -> Option<NodeAffinity> {
    let mut requirements = Vec::new();
    for (key, values) in &spec.pod.node_affinity {
        let path = format!("spec.pod.nodeAffinity[{key}]");
        faults.require(is_label_key(key), path.as_str(), || {
            format!("{key:?} cannot be the key of a label")
        });
        faults.require(!values.is_empty(), path.as_str(), || {
            "no value: no node would fit; give at least one value".to_owned()
        });
        for value in values.iter().filter(|value| !is_label_value(value)) {
            faults.add(path.as_str(), format!("{value:?} cannot be the value of a label"));
        }
        requirements.push(NodeSelectorRequirement {
            key: key.clone(),
            operator: "In".to_owned(),
            values: Some(values.clone()),
        });
    }
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

/// Longest grace period of `flux.drainSeconds`: a week.
const LONGEST_DRAIN: i64 = 604_800;

/// What the kubelet gives a pod to end, in seconds.
fn grace_seconds(spec: &MiniClusterSpec, faults: &mut Faults) -> u64 {
    let overlay = spec.pod.overlay.as_ref();
    let overlay = overlay.and_then(|overlay| overlay.get("terminationGracePeriodSeconds"));
    let overlay = overlay.and_then(Value::as_u64);
    let path = "spec.flux.drainSeconds";
    let drain = spec.flux.drain_seconds.and_then(|seconds| {
        faults.require((0..=LONGEST_DRAIN).contains(&seconds), path, || {
            format!("{seconds} is no such time: give 0 to {LONGEST_DRAIN} seconds")
        });
        u64::try_from(seconds).ok()
    });
    if let (Some(drain), Some(overlay)) = (drain, overlay) {
        faults.require(drain == overlay, path, || {
            format!("{drain} is not what pod.overlay.terminationGracePeriodSeconds says, {overlay}: they are the same, keep one")
        });
    }
    drain.or(overlay).unwrap_or(Shutdown::DEFAULT_GRACE_SECONDS)
}

/// Checks keys and values of labels.
pub(super) fn labels(path: &str, labels: &BTreeMap<String, String>, faults: &mut Faults) {
    for (key, value) in labels {
        faults.require(is_label_key(key), format!("{path}[{key}]"), || {
            format!("{key:?} cannot be the key of a label: use letters, digits, '-', '_', '.' after an optional DNS prefix and '/'")
        });
        faults.require(is_label_value(value), format!("{path}[{key}]"), || {
            format!("{value:?} cannot be the value of a label: use at most 63 letters, digits, '-', '_', '.'")
        });
    }
}
