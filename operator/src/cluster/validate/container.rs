//! `spec.containers` and `spec.services`: who runs Flux, and what every container has.

use super::{
    faults::Faults,
    pod_parts::PodParts,
    runner::{runner, runner_position},
    text::{non_empty, non_empty_owned},
};
use crate::{
    cluster::{FixedFields, Runner, ServicesPod, Sidecar, View},
    crd::{self, MiniClusterSpec},
};
use flux_contract::{Layout, SidecarConfig};
use k8s_openapi::api::core::v1::PodSpec;
use std::collections::BTreeSet;

/// What becomes of `spec.containers`.
pub(super) struct Containers {
    /// The container that runs Flux; absent when there is not exactly one.
    pub(super) runner: Option<Runner>,
    /// The containers beside it.
    pub(super) sidecars: Vec<Sidecar>,
    /// The volumes and pull secrets of the Job's pods, with all that they have in common with others.
    pub(super) pod: PodSpec,
}

/// Resolves and checks all containers of the cluster called `name`, whose pods have `common`.
pub(super) fn containers(
    name: &str,
    spec: &MiniClusterSpec,
    view: &View,
    common: &PodSpec,
    faults: &mut Faults,
) -> Containers {
    let mut paths = vec![view.mount_path.clone(), "/flux_operator".to_owned()];
    let mut pull_secret = None;
    if view.enabled {
        paths.push(Layout::SOFTWARE_MOUNT.to_owned());
        pull_secret = non_empty_owned(spec.flux.container.image_pull_secret.as_ref());
    }
    let mut parts = PodParts::new(&paths, pull_secret);
    let position = runner_position(&spec.containers);
    // The pods' subdomain.
    let headless_name = common.subdomain.clone().unwrap_or_default();
    let mut addresses = BTreeSet::from([headless_name, format!("{name}-lead")]);
    let (mut flux, mut sidecars) = (None, Vec::new());
    for (index, container) in spec.containers.iter().enumerate() {
        let path = format!("spec.containers[{index}]");
        if position == Some(index) {
            let common = parts.container(&path, name, container, faults);
            flux = runner(&path, spec, container, common, faults);
            continue;
        }
        let common = parts.container(&path, own_name(container), container, faults);
        if position.is_some() {
            if let Some(sidecar) = non_empty(container.name.as_ref())
                && !container.ports.is_empty()
            {
                service_names(&path, sidecar, name, &mut addresses, faults);
            }
            sidecars.push(Sidecar { container: common, wrapped: wrapped(spec, container) });
        }
    }
    Containers { runner: flux, sidecars, pod: parts.into_spec(common) }
}

/// The pod of `spec.services`, with volumes of its own.
pub(super) fn services_pod(
    name: Option<String>,
    spec: &MiniClusterSpec,
    common: &PodSpec,
    faults: &mut Faults,
) -> Option<ServicesPod> {
    let mut parts = PodParts::new(&[], None);
    let mut containers = Vec::new();
    for (index, given) in spec.services.iter().enumerate() {
        let path = format!("spec.services[{index}]");
        let mut container = parts.container(&path, own_name(given), given, faults);
        let command = non_empty_owned(given.command.as_ref());
        container.command = command.map(|text| vec!["sh".to_owned(), "-c".to_owned(), text]);
        containers.push(container);
    }
    (!containers.is_empty()).then(|| ServicesPod {
        spec: PodSpec {
            containers,
            // Found as `<name>-services.<headlessName>`.
            hostname: name,
            // A service that fails comes back; one that has done its work is not repeated.
            restart_policy: Some("OnFailure".to_owned()),
            ..parts.into_spec(common)
        },
        fixed_fields: FixedFields::of_services(spec),
    })
}

/// The name that the specification gives a container. That it gives one is a rule of the definition.
fn own_name(container: &crd::Container) -> &str {
    container.name.as_deref().unwrap_or_default()
}

/// Checks the names of the Services that the ports of the sidecar `name` get: one that no other
/// MiniCluster has, and the container's own. `services` are those that are taken.
fn service_names(
    path: &str,
    name: &str,
    cluster: &str,
    services: &mut BTreeSet<String>,
    faults: &mut Faults,
) {
    let path = format!("{path}.name");
    let unique = format!("{cluster}-{name}");
    for service in [name.to_owned(), unique] {
        faults.require(!services.contains(&service), path.as_str(), || {
            format!("its ports need the Service {service:?}, which is another Service of this MiniCluster: use another name")
        });
        services.insert(service);
    }
}

/// What the agent runs in a sidecar; nothing where the image's own entrypoint runs: when that is
/// asked for, and when there is nothing to run instead.
fn wrapped(spec: &MiniClusterSpec, container: &crd::Container) -> Option<SidecarConfig> {
    let commands = container.commands.clone().unwrap_or_default();
    let sidecar = SidecarConfig {
        wait_for_socket: !spec.flux.no_wait_socket && !spec.flux.disable_socket,
        command: non_empty_owned(container.command.as_ref()),
        init: non_empty_owned(commands.init.as_ref()),
        service_pre: non_empty_owned(commands.service_pre.as_ref()),
        post: non_empty_owned(commands.post.as_ref()),
    };
    let texts = [&sidecar.command, &sidecar.init, &sidecar.service_pre, &sidecar.post];
    let runs_something = texts.iter().any(|text| text.is_some());
    (!container.no_wrap_entrypoint && runs_something).then_some(sidecar)
}
