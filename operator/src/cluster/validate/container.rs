//! `spec.containers` and `spec.services`: who runs Flux, and what every container has.

use super::{
    pod_parts::PodParts,
    text::{non_empty, non_empty_owned},
    violations::Violations,
    work::workload,
};
use crate::cluster::{FixedFields, Runner, ServicesPod, Sidecar, View};
use crate::crd::{self, MiniClusterSpec, UserAccount};
use flux_contract::{FluxUser, Hooks, Layout, SidecarConfig};
use k8s_openapi::api::core::v1::{Container, PodSpec};
use std::collections::BTreeSet;

/// Largest uid that Kubernetes accepts in a security context.
const USER_ID_LIMIT: i64 = 2_147_483_647;

/// What becomes of `spec.containers`.
pub(super) struct Containers {
    /// The container that runs Flux; absent when there is not exactly one.
    pub(super) runner: Option<Runner>,
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
    faults: &mut Violations,
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
    faults: &mut Violations,
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
    faults: &mut Violations,
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

/// Which container runs Flux; `None` where there is not exactly one, which the definition refuses.
pub(super) fn runner_position(containers: &[crd::Container]) -> Option<usize> {
    let with = |wanted: Option<bool>| -> Vec<usize> {
        let fits = |(index, container): (usize, &crd::Container)| {
            (container.run_flux == wanted).then_some(index)
        };
        containers.iter().enumerate().filter_map(fits).collect()
    };
    match (containers.len(), &with(Some(true))[..], &with(None)[..]) {
        (1, _, _) => Some(0),
        (_, [only], _) | (_, [], [only]) => Some(*only),
        _ => None,
    }
}

/// Resolves and checks the container at `path` as the one that runs Flux.
fn runner(
    path: &str,
    spec: &MiniClusterSpec,
    container: &crd::Container,
    common: Container,
    faults: &mut Violations,
) -> Option<Runner> {
    let commands = container.commands.clone().unwrap_or_default();
    let hooks = Hooks {
        init: non_empty_owned(commands.init.as_ref()),
        pre_command: non_empty_owned(container.pre_command.as_ref()),
        pre: non_empty_owned(commands.pre.as_ref()),
        broker_pre: non_empty_owned(commands.broker_pre.as_ref())
            .or_else(|| non_empty_owned(commands.pre_broker.as_ref())),
        worker_pre: non_empty_owned(commands.worker_pre.as_ref())
            .or_else(|| non_empty_owned(commands.pre_worker.as_ref())),
        post: non_empty_owned(commands.post.as_ref()),
    };
    let user = user(path, container, commands.run_flux_as_root, faults);
    let workload = workload(path, spec, container, faults)?;
    Some(Runner { container: common, user, hooks, workload })
}

fn user(
    path: &str,
    container: &crd::Container,
    run_as_root: bool,
    faults: &mut Violations,
) -> FluxUser {
    let account = container.flux_user.clone().or_else(|| container.fluxuser.clone());
    let UserAccount { uid, name } = account.unwrap_or_default();
    let path = format!("{path}.fluxUser");
    faults.require(uid <= USER_ID_LIMIT, format!("{path}.uid"), || {
        format!("{uid} is out of range: give at most {USER_ID_LIMIT}")
    });
    faults.require(is_account_name(&name), format!("{path}.name"), || {
        format!("{name:?} is no account name: use at most 32 lower-case letters, digits, '_' and '-', not starting with a digit or '-'")
    });
    FluxUser {
        name,
        uid: u32::try_from(uid).unwrap_or_default(),
        run_as_root,
        capabilities: added_capabilities(container),
    }
}

/// Kubernetes gives them to root alone; Flux's user is to have them as well.
fn added_capabilities(container: &crd::Container) -> Vec<String> {
    let context = container.security_context.as_ref();
    let capabilities = context.and_then(|context| context.capabilities.as_ref());
    capabilities.and_then(|capabilities| capabilities.add.clone()).unwrap_or_default()
}

/// A portable account name (useradd(8)).
fn is_account_name(name: &str) -> bool {
    let first = |c: char| c.is_ascii_lowercase() || c == '_';
    name.len() <= 32
        && name.starts_with(first)
        && name.chars().all(|c| first(c) || c.is_ascii_digit() || c == '-')
}
