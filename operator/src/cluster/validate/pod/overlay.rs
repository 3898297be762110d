//! Fields of a PodSpec that would take from the instance what it rests on.

use crate::cluster::AGENT_CONTAINER;
use crate::cluster::validate::faults::Faults;
use crate::crd::MiniClusterSpec;
use k8s_openapi::api::core::v1::{Container, PodSpec};

/// Refuses what `overlay` must not change, each with what to do instead.
pub(super) fn check(spec: &MiniClusterSpec, overlay: &PodSpec, faults: &mut Faults) {
    let host_name = "each pod has one of its own, by which Flux knows it: remove it";
    let refused = [
        (
            "hostNetwork",
            overlay.host_network == Some(true),
            "a pod in the node's network has the node's host name, by which Flux does not know it: remove \
             it, and bring a fast network into the pods' own (a device plugin, a second network)",
        ),
        ("hostname", overlay.hostname.is_some(), host_name),
        ("setHostnameAsFQDN", overlay.set_hostname_as_fqdn == Some(true), host_name),
        (
            "subdomain",
            overlay.subdomain.is_some(),
            "the pods find each other by it: remove it, or set spec.network.headlessName",
        ),
        (
            "restartPolicy",
            overlay.restart_policy.is_some(),
            "what else the Job says depends on it: set spec.pod.restartPolicy instead",
        ),
        (
            "shareProcessNamespace",
            overlay.share_process_namespace.is_some(),
            "has a field of its own: set spec.shareProcessNamespace instead",
        ),
        (
            "activeDeadlineSeconds",
            overlay.active_deadline_seconds.is_some(),
            "would end each pod for itself: set spec.deadlineSeconds instead",
        ),
        (
            "ephemeralContainers",
            overlay.ephemeral_containers.is_some(),
            "cannot be given beforehand: use kubectl debug",
        ),
        (
            "terminationGracePeriodSeconds",
            overlay.termination_grace_period_seconds.is_some_and(|seconds| seconds < 0),
            "is no time: give 0 or more seconds",
        ),
    ];
    for (field, is_given, remedy) in refused {
        faults.require(!is_given, format!("spec.pod.overlay.{field}"), || remedy.to_owned());
    }
    let ours = [AGENT_CONTAINER, &spec.flux.container.name];
    for (index, container) in overlay.containers.iter().enumerate() {
        entrypoint(&format!("containers[{index}]"), container, faults);
    }
    for (index, container) in overlay.init_containers.iter().flatten().enumerate() {
        if ours.contains(&container.name.as_str()) {
            entrypoint(&format!("initContainers[{index}]"), container, faults);
        }
    }
}

/// What runs in a container is the agent's affair, and what it leaves at its end.
fn entrypoint(path: &str, container: &Container, faults: &mut Faults) {
    let given = [
        ("command", container.command.is_some()),
        ("args", container.args.is_some()),
        ("terminationMessagePath", container.termination_message_path.is_some()),
    ];
    for (field, is_given) in given {
        faults.require(!is_given, format!("spec.pod.overlay.{path}.{field}"), || {
            "the agent runs there: remove it, or set the command in spec.containers".to_owned()
        });
    }
}
