//! `spec.pod`.

use super::container::{non_empty_list, started_by_the_agent};
use super::flux::architecture;
use super::text::{non_empty, non_empty_owned};
use super::violations::{Violations, field_path};
use crate::cluster::{AGENT_CONTAINER, Pod};
use crate::crd::MiniClusterSpec;
use flux_contract::{Shutdown, labels};
use k8s_openapi::api::core::v1::{
    Affinity, Container, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    PodAffinity, PodAffinityTerm, PodAntiAffinity, PodDNSConfig, PodSpec, ResourceRequirements,
    WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde_json::Value;
use std::collections::BTreeMap;

/// Label of a node with its architecture (well-known labels of Kubernetes).
const ARCHITECTURE_LABEL: &str = "kubernetes.io/arch";
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
const NODE_LABEL: &str = "kubernetes.io/hostname";

/// Resolves and checks the pods of the Job; `pod` is the specification that they share with the pod of `spec.services`.
pub(super) fn pod(
    name: &str,
    spec: &MiniClusterSpec,
    pod: PodSpec,
    faults: &mut Violations,
) -> Pod {
    let given = &spec.pod;
    overlay(name, spec, faults);
    let grace_seconds = grace_seconds(spec, faults);
    // By default a failed command is not run again.
    let restart_policy = non_empty(given.restart_policy.as_ref()).unwrap_or("Never");
    let resources = Some(given.resources.clone()).filter(|resources| !resources.is_empty());
    // The API server refuses an overhead without a runtime class that defines it; then the pod gets the resources.
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

/// The specification that the Job's pods and the pod of `spec.services` share. `service_domain` is
/// `<namespace>.svc.<domain>`, if it is known.
pub(super) fn shared_pod_spec(
    spec: &MiniClusterSpec,
    headless_name: &str,
    service_domain: Option<&str>,
    faults: &mut Violations,
) -> PodSpec {
    let pod = &spec.pod;
    // Programs send each other their host names, which are resolved below the headless Service.
    let search = service_domain.map(|domain| format!("{headless_name}.{domain}"));
    PodSpec {
        // By default no container can use the Kubernetes API.
        automount_service_account_token: Some(pod.automount_service_account_token),
        dns_config: search
            .map(|it| PodDNSConfig { searches: Some(vec![it]), ..PodDNSConfig::default() }),
        dns_policy: non_empty_owned(pod.dns_policy.as_ref()),
        // Otherwise the environment would have variables for every Service of the namespace.
        enable_service_links: Some(false),
        host_ipc: pod.host_ipc.then_some(true),
        host_pid: pod.host_pid.then_some(true),
        node_selector: Some(node_selector(spec, faults)).filter(|labels| !labels.is_empty()),
        runtime_class_name: non_empty_owned(pod.runtime_class_name.as_ref()),
        scheduler_name: non_empty_owned(pod.scheduler_name.as_ref()),
        security_context: pod.security_context.clone(),
        service_account_name: non_empty_owned(pod.service_account_name.as_ref()),
        // Flux finds a rank by the short host name, `<name>-<index>`.
        set_hostname_as_fqdn: Some(false),
        share_process_namespace: spec.share_process_namespace.then_some(true),
        subdomain: Some(headless_name.to_owned()),
        tolerations: non_empty_list(pod.tolerations.clone()),
        ..PodSpec::default()
    }
}

fn node_selector(spec: &MiniClusterSpec, faults: &mut Violations) -> BTreeMap<String, String> {
    let mut labels = spec.pod.node_selector.clone();
    let Some(label) = architecture(&spec.flux) else { return labels };
    let other = labels.insert(ARCHITECTURE_LABEL.to_owned(), label.to_owned());
    faults.require(other.as_deref().is_none_or(|other| other == label), "spec.flux.arch", || {
        let text = spec.flux.arch.as_deref().unwrap_or_default();
        format!("{text:?} differs from pod.nodeSelector[{ARCHITECTURE_LABEL}]: keep one")
    });
    labels
}

fn overlay(name: &str, spec: &MiniClusterSpec, faults: &mut Violations) {
    let Some(overlay) = &spec.pod.overlay else { return };
    let mut unknown = Vec::new();
    match serde_ignored::deserialize(overlay, |path| unknown.push(field_path(&path))) {
        Ok(read) => {
            for path in unknown {
                let path = format!("spec.pod.overlay.{path}");
                faults.add(path, "no field of a pod that this release knows: remove or correct it");
            }
            check_overlay(name, spec, &read, faults);
        }
        Err(error) => {
            faults.add("spec.pod.overlay", format!("not the fields of a PodSpec: {error}"));
        }
    }
}

fn grace_seconds(spec: &MiniClusterSpec, faults: &mut Violations) -> u64 {
    let overlay = spec.pod.overlay.as_ref();
    let overlay = overlay.and_then(|overlay| overlay.get("terminationGracePeriodSeconds"));
    let overlay = overlay.and_then(Value::as_u64);
    let path = "spec.flux.drainSeconds";
    let drain = spec.flux.drain_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    if let (Some(drain), Some(overlay)) = (drain, overlay) {
        faults.require(drain == overlay, path, || {
            format!("{drain} differs from pod.overlay.terminationGracePeriodSeconds, {overlay}, which sets the same: keep one")
        });
    }
    drain.or(overlay).unwrap_or(Shutdown::DEFAULT_GRACE_SECONDS)
}

/// Prefers one zone for all pods and one node for each, and requires the user's node affinity.
fn affinity(name: &str, spec: &MiniClusterSpec) -> Option<Affinity> {
    (!spec.network.disable_affinity).then(|| Affinity {
        node_affinity: node_affinity(spec),
        pod_affinity: Some(PodAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![affinity_term(
                name, ZONE_LABEL,
            )]),
            ..PodAffinity::default()
        }),
        pod_anti_affinity: Some(PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![affinity_term(
                name, NODE_LABEL,
            )]),
            ..PodAntiAffinity::default()
        }),
    })
}

fn node_affinity(spec: &MiniClusterSpec) -> Option<NodeAffinity> {
    let requirement = |(key, values): (&String, &Vec<String>)| NodeSelectorRequirement {
        key: key.clone(),
        operator: "In".to_owned(),
        values: Some(values.clone()),
    };
    let requirements: Vec<_> = spec.pod.node_affinity.iter().map(requirement).collect();
    (!requirements.is_empty()).then(|| NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(NodeSelector {
            node_selector_terms: vec![NodeSelectorTerm {
                match_expressions: Some(requirements),
                match_fields: None,
            }],
        }),
        ..NodeAffinity::default()
    })
}

/// A term for the pods of the MiniCluster `name` on nodes with the same value of the label `topology`.
fn affinity_term(name: &str, topology: &str) -> WeightedPodAffinityTerm {
    WeightedPodAffinityTerm {
        weight: 100,
        pod_affinity_term: PodAffinityTerm {
            topology_key: topology.to_owned(),
            label_selector: Some(LabelSelector {
                match_expressions: Some(vec![LabelSelectorRequirement {
                    key: labels::NAME.to_owned(),
                    operator: "In".to_owned(),
                    values: Some(vec![name.to_owned()]),
                }]),
                ..LabelSelector::default()
            }),
            ..PodAffinityTerm::default()
        },
    }
}

/// Refuses fields that `overlay` must not change, each with a remedy.
fn check_overlay(name: &str, spec: &MiniClusterSpec, overlay: &PodSpec, faults: &mut Violations) {
    let host_name = "each pod has its own name, by which Flux finds it: remove it";
    let refused = [
        (
            "hostNetwork",
            overlay.host_network == Some(true),
            "a pod in the node's network has the node's host name, which is not in Flux's hostlist: remove \
             it, and bring a fast network into the pods' own (a device plugin, a second network)",
        ),
        ("hostname", overlay.hostname.is_some(), host_name),
        ("setHostnameAsFQDN", overlay.set_hostname_as_fqdn == Some(true), host_name),
        (
            "subdomain",
            overlay.subdomain.is_some(),
            "the pods need it to find each other: remove it, or set spec.network.headlessName",
        ),
        (
            "restartPolicy",
            overlay.restart_policy.is_some(),
            "other fields of the Job depend on it: set spec.pod.restartPolicy instead",
        ),
        (
            "shareProcessNamespace",
            overlay.share_process_namespace.is_some(),
            "has a field of its own: set spec.shareProcessNamespace instead",
        ),
        (
            "activeDeadlineSeconds",
            overlay.active_deadline_seconds.is_some(),
            "would end each pod separately: set spec.deadlineSeconds instead",
        ),
        (
            "ephemeralContainers",
            overlay.ephemeral_containers.is_some(),
            "cannot be given beforehand: use kubectl debug",
        ),
        (
            "terminationGracePeriodSeconds",
            overlay.termination_grace_period_seconds.is_some_and(|seconds| seconds < 0),
            "is negative: give 0 or more seconds",
        ),
    ];
    for (field, is_given, remedy) in refused {
        faults.require(!is_given, format!("spec.pod.overlay.{field}"), || remedy.to_owned());
    }
    check_containers(name, spec, overlay, faults);
}

/// Refuses unknown containers in the overlay, and fields of known ones that the agent needs.
fn check_containers(
    name: &str,
    spec: &MiniClusterSpec,
    overlay: &PodSpec,
    faults: &mut Violations,
) {
    let ours = [AGENT_CONTAINER, &spec.flux.container.name];
    let started = started_by_the_agent(name, spec);
    for (index, container) in overlay.containers.iter().enumerate() {
        let path = format!("containers[{index}]");
        if started.contains(&container.name.as_str()) {
            entrypoint(&path, container, faults);
        } else {
            let remedy = "is no container that the agent starts: correct the name; a container of your own goes into spec.containers, with runFlux: false, and what keeps its image's entrypoint is in initContainers here";
            faults.add(format!("spec.pod.overlay.{path}.name"), remedy);
        }
    }
    for (index, container) in overlay.init_containers.iter().flatten().enumerate() {
        let path = format!("initContainers[{index}]");
        if ours.contains(&container.name.as_str()) {
            entrypoint(&path, container, faults);
        }
        let is_free = !started.contains(&container.name.as_str());
        faults.require(is_free, format!("spec.pod.overlay.{path}.name"), || {
            "is the name of a container that the agent starts: use another".to_owned()
        });
    }
}

/// Refuses fields that decide what runs in a container, and where it leaves its termination message.
fn entrypoint(path: &str, container: &Container, faults: &mut Violations) {
    let given = [
        ("command", container.command.is_some()),
        ("args", container.args.is_some()),
        ("terminationMessagePath", container.termination_message_path.is_some()),
    ];
    for (field, is_given) in given {
        faults.require(!is_given, format!("spec.pod.overlay.{path}.{field}"), || {
            "the agent starts it: remove it, and set command in spec.containers, where a container of your own has runFlux: false".to_owned()
        });
    }
}
