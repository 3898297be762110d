//! `spec.containers` and `spec.services`: who runs Flux, and what every container has.

use super::{
    faults::Faults,
    runner::{runner, runner_position},
    text::{argument_vector, is_absolute_path, non_empty, non_empty_owned},
    volume::Volumes,
};
use crate::{
    cluster::{self, FixedFields, Network, Runner, ServicesContainer, ServicesPod, Sidecar, View},
    crd::{self, MiniClusterSpec},
};
use flux_contract::{Layout, SidecarConfig};
use k8s_openapi::api::core::v1::Volume;
use std::collections::BTreeSet;

/// What becomes of `spec.containers` and `spec.services`.
pub(super) struct Containers {
    /// The container that runs Flux; absent when there is not exactly one.
    pub(super) runner: Option<Runner>,
    /// The containers beside it.
    pub(super) sidecars: Vec<Sidecar>,
    /// The pod of `spec.services`.
    pub(super) services_pod: Option<ServicesPod>,
    /// The volumes of the Job's pods.
    pub(super) volumes: Vec<Volume>,
}

/// Resolves and checks all containers of the cluster called `name`.
pub(super) fn containers(
    name: &str,
    spec: &MiniClusterSpec,
    view: &View,
    network: &Network,
    faults: &mut Faults,
) -> Containers {
    let mut paths = vec![view.mount_path.clone(), "/flux_operator".to_owned()];
    if view.enabled {
        paths.push(Layout::SOFTWARE_MOUNT.to_owned());
    }
    let mut volumes = Volumes::new(&paths);
    let position = runner_position(&spec.containers);
    let mut addresses = BTreeSet::from([network.headless_name.clone(), format!("{name}-lead")]);
    let (mut flux, mut sidecars) = (None, Vec::new());
    for (index, container) in spec.containers.iter().enumerate() {
        let path = format!("spec.containers[{index}]");
        let common = common(&path, name, container, &mut volumes, faults);
        if position == Some(index) {
            flux = runner(&path, spec, container, common, faults);
        } else if position.is_some() {
            if let Some(sidecar) = non_empty(container.name.as_ref())
                && !container.ports.is_empty()
            {
                service_names(&path, sidecar, name, &mut addresses, faults);
            }
            sidecars.push(Sidecar {
                container: own_name(container, common),
                wrapped: wrapped(spec, container),
            });
        }
    }
    let services_pod = services_pod(name, spec, faults);
    Containers { runner: flux, sidecars, services_pod, volumes: volumes.into_volumes() }
}

/// The pod of `spec.services`, with volumes of its own.
fn services_pod(name: &str, spec: &MiniClusterSpec, faults: &mut Faults) -> Option<ServicesPod> {
    let mut volumes = Volumes::new(&[]);
    let mut containers = Vec::new();
    for (index, container) in spec.services.iter().enumerate() {
        let path = format!("spec.services[{index}]");
        let common = common(&path, name, container, &mut volumes, faults);
        containers.push(ServicesContainer {
            container: own_name(container, common),
            command: non_empty_owned(container.command.as_ref()),
        });
    }
    (!containers.is_empty()).then(|| ServicesPod {
        containers,
        volumes: volumes.into_volumes(),
        fixed_fields: FixedFields::of_services(spec),
    })
}

/// `common` under the name that the specification gives it. That it gives one is a rule of the
/// definition.
fn own_name(container: &crd::Container, common: cluster::Container) -> cluster::Container {
    cluster::Container { name: container.name.clone().unwrap_or_default(), ..common }
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

/// What every container has; `name` is the MiniCluster's.
fn common(
    path: &str,
    name: &str,
    container: &crd::Container,
    volumes: &mut Volumes<'_>,
    faults: &mut Faults,
) -> cluster::Container {
    if let Some(directory) = non_empty(container.working_dir.as_ref()) {
        faults.require(is_absolute_path(directory), format!("{path}.workingDir"), || {
            format!("{directory:?} is not an absolute path without '..'")
        });
    }
    for variable in container.secrets.keys() {
        let is_given = container.environment.contains_key(variable);
        faults.require(!is_given, format!("{path}.secrets[{variable}]"), || {
            format!("variable {variable:?} is in environment as well: keep one")
        });
    }
    let hooks = container.life_cycle.clone().unwrap_or_default();
    let secret = |(name, key): (&String, &crd::SecretKey)| {
        (name.clone(), (key.name.clone(), key.key.clone()))
    };
    cluster::Container {
        name: name.to_owned(),
        image: container.image.clone(),
        pull_policy: pull_policy(container),
        pull_secret: non_empty_owned(container.image_pull_secret.as_ref()),
        working_dir: non_empty_owned(container.working_dir.as_ref()),
        ports: container.ports.iter().filter_map(|port| u16::try_from(*port).ok()).collect(),
        environment: container.environment.clone(),
        secrets: container.secrets.iter().map(secret).collect(),
        cores: container.cores.map_or(1, i32::unsigned_abs),
        mounts: volumes.mount(path, &container.volumes, faults),
        resources: container.resources.clone().unwrap_or_default(),
        security_context: container.security_context.clone(),
        post_start: hook(path, "postStartExec", hooks.post_start_exec.as_ref(), faults),
        pre_stop: hook(path, "preStopExec", hooks.pre_stop_exec.as_ref(), faults),
    }
}

fn pull_policy(container: &crd::Container) -> String {
    let policy = non_empty(container.image_pull_policy.as_ref()).unwrap_or("IfNotPresent");
    if container.pull_always { "Always" } else { policy }.to_owned()
}

/// The argument vector of a lifecycle hook.
fn hook(
    path: &str,
    field: &str,
    text: Option<&String>,
    faults: &mut Faults,
) -> Option<Vec<String>> {
    let vector = argument_vector(non_empty(text)?);
    faults.require(
        vector.as_ref().is_some_and(|vector| !vector.is_empty()),
        format!("{path}.lifeCycle.{field}"),
        || "not a command: close every quote".to_owned(),
    );
    vector
}
