//! `spec.containers` and `spec.services`: who runs Flux, and what every container has.

use super::{
    faults::Faults,
    image::image,
    quantity::{billionths, is_quantity},
    runner::{runner, runner_position},
    text::{
        argument_vector, given, is_absolute_path, is_environment_name, is_label, is_object_name,
        is_service_name, owned,
    },
    volume::Volumes,
};
use crate::{
    cluster::{
        self, AGENT_CONTAINER, Companion, CompanionContainer, FixedFields, Network, Runner,
        Sidecar, View,
    },
    crd::{self, MiniClusterSpec},
};
use flux_contract::{Layout, SidecarConfig};
use k8s_openapi::api::core::v1::{ResourceRequirements, Volume};
use std::collections::BTreeSet;

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];

/// What becomes of `spec.containers` and `spec.services`.
pub(super) struct Containers {
    /// The container that runs Flux; absent when there is not exactly one.
    pub(super) runner: Option<Runner>,
    /// The containers beside it.
    pub(super) sidecars: Vec<Sidecar>,
    /// The pod of `spec.services`.
    pub(super) companion: Option<Companion>,
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
    let own = ["agent", "curve", "munge", "private", "agent-bin", "view-image", "view-software"];
    let own = own.map(|part| format!("{name}-{part}"));
    let names = [&[view.name.clone()][..], &own].concat();
    let mut paths = vec![view.mount_path.clone(), "/flux_operator".to_owned()];
    if view.enabled {
        paths.push(Layout::SOFTWARE_MOUNT.to_owned());
    }
    let mut volumes = Volumes::new(&names, &paths);
    let position = runner_position(&spec.containers, faults);
    let mut taken: BTreeSet<String> = [name, AGENT_CONTAINER, &view.name].map(str::to_owned).into();
    let mut addresses = BTreeSet::from([network.headless_name.clone(), format!("{name}-lead")]);
    let (mut flux, mut sidecars) = (None, Vec::new());
    for (index, container) in spec.containers.iter().enumerate() {
        let path = format!("spec.containers[{index}]");
        let common = common(&path, name, container, &mut volumes, faults);
        if position == Some(index) {
            flux = runner(&path, spec, container, common, faults);
        } else if position.is_some() {
            let cluster = name;
            let name = container_name(&path, container, &mut taken, faults);
            if !container.ports.is_empty() && is_label(&name) {
                service_names(&path, &name, cluster, &mut addresses, faults);
            }
            let wrapped = wrapped(spec, container);
            sidecars.push(Sidecar { container: cluster::Container { name, ..common }, wrapped });
        }
    }
    let companion = companion(name, spec, faults);
    Containers { runner: flux, sidecars, companion, volumes: volumes.into_volumes() }
}

/// The companion. It is a pod of its own, and so has its own volumes.
fn companion(name: &str, spec: &MiniClusterSpec, faults: &mut Faults) -> Option<Companion> {
    let mut volumes = Volumes::new(&[], &[]);
    let mut taken = BTreeSet::new();
    let mut containers = Vec::new();
    for (index, container) in spec.services.iter().enumerate() {
        let path = format!("spec.services[{index}]");
        let commands = container.commands.as_ref();
        let not_for_services = [
            ("pre", commands.and_then(|commands| commands.pre.as_ref())),
            ("brokerPre", commands.and_then(|commands| commands.broker_pre.as_ref())),
            ("preBroker", commands.and_then(|commands| commands.pre_broker.as_ref())),
            ("workerPre", commands.and_then(|commands| commands.worker_pre.as_ref())),
            ("preWorker", commands.and_then(|commands| commands.pre_worker.as_ref())),
        ];
        for (field, _) in not_for_services.iter().filter(|(_, script)| script.is_some()) {
            faults.add(
                format!("{path}.commands.{field}"),
                "does not apply to a service, which does not run Flux: remove it",
            );
        }
        let common = common(&path, name, container, &mut volumes, faults);
        let name = container_name(&path, container, &mut taken, faults);
        containers.push(CompanionContainer {
            container: cluster::Container { name, ..common },
            command: owned(container.command.as_ref()),
        });
    }
    (!containers.is_empty()).then(|| Companion {
        containers,
        volumes: volumes.into_volumes(),
        fixed_fields: FixedFields::of_services(spec),
    })
}

/// The name of a container that does not run Flux.
fn container_name(
    path: &str,
    container: &crd::Container,
    taken: &mut BTreeSet<String>,
    faults: &mut Faults,
) -> String {
    let path = format!("{path}.name");
    let Some(name) = given(container.name.as_ref()) else {
        faults.add(path, "missing: a container that does not run Flux needs a name");
        return String::new();
    };
    faults.require(is_label(name), path.as_str(), || {
        format!("{name:?} is not a DNS label: use at most 63 lower-case letters, digits and '-'")
    });
    faults.require(taken.insert(name.to_owned()), path, || {
        format!("{name:?} is the name of another container of the pod: use another")
    });
    name.to_owned()
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
    faults.require(is_service_name(name), path.as_str(), || {
        format!("{name:?} cannot be the name of the Service for its ports: start it with a letter")
    });
    let unique = format!("{cluster}-{name}");
    faults.require(is_label(&unique), path.as_str(), || {
        format!("{name:?} is too long for the Service {unique:?} of its ports: use at most {} characters", 62_usize.saturating_sub(cluster.len()))
    });
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
        command: owned(container.command.as_ref()),
        init: owned(commands.init.as_ref()),
        service_pre: owned(commands.service_pre.as_ref()),
        post: owned(commands.post.as_ref()),
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
    image(&format!("{path}.image"), &container.image, faults);
    if let Some(secret) = given(container.image_pull_secret.as_ref()) {
        faults.require(is_object_name(secret), format!("{path}.imagePullSecret"), || {
            format!("{secret:?} cannot be the name of a Secret")
        });
    }
    if let Some(directory) = given(container.working_dir.as_ref()) {
        faults.require(is_absolute_path(directory), format!("{path}.workingDir"), || {
            format!("{directory:?} is not an absolute path without '..'")
        });
    }
    environment(path, container, faults);
    let hooks = container.life_cycle.clone().unwrap_or_default();
    let secret = |(name, key): (&String, &crd::SecretKey)| {
        (name.clone(), (key.name.clone(), key.key.clone()))
    };
    cluster::Container {
        name: name.to_owned(),
        image: container.image.clone(),
        pull_policy: pull_policy(path, container, faults),
        pull_secret: owned(container.image_pull_secret.as_ref()),
        working_dir: owned(container.working_dir.as_ref()),
        ports: ports(path, &container.ports, faults),
        environment: container.environment.clone(),
        secrets: container.secrets.iter().map(secret).collect(),
        cores: cores(path, container, faults),
        mounts: volumes.mount(path, &container.volumes, faults),
        resources: resources(&format!("{path}.resources"), container.resources.as_ref(), faults),
        security_context: container.security_context.clone(),
        post_start: hook(path, "postStartExec", hooks.post_start_exec.as_ref(), faults),
        pre_stop: hook(path, "preStopExec", hooks.pre_stop_exec.as_ref(), faults),
    }
}

/// One unless given.
fn cores(path: &str, container: &crd::Container, faults: &mut Faults) -> u32 {
    let cores = container.cores.unwrap_or(1);
    faults.require(cores >= 1, format!("{path}.cores"), || {
        format!("{cores} is no number of cores: give at least 1")
    });
    cores.unsigned_abs()
}

fn pull_policy(path: &str, container: &crd::Container, faults: &mut Faults) -> String {
    let policy = given(container.image_pull_policy.as_ref()).unwrap_or("IfNotPresent");
    faults.require(PULL_POLICIES.contains(&policy), format!("{path}.imagePullPolicy"), || {
        format!("{policy:?} is no pull policy: use {}", PULL_POLICIES.join(", "))
    });
    if container.pull_always { "Always" } else { policy }.to_owned()
}

fn ports(path: &str, ports: &[i32], faults: &mut Faults) -> Vec<u16> {
    let mut numbers = Vec::new();
    for (index, &port) in ports.iter().enumerate() {
        match u16::try_from(port) {
            Ok(number) if number > 0 && !numbers.contains(&number) => numbers.push(number),
            Ok(number) if number > 0 => {
                faults.add(
                    format!("{path}.ports[{index}]"),
                    format!("{port} is listed twice: remove one"),
                );
            }
            Ok(_) | Err(_) => faults.add(
                format!("{path}.ports[{index}]"),
                format!("{port} is no port: give 1 to 65535"),
            ),
        }
    }
    numbers
}

fn environment(path: &str, container: &crd::Container, faults: &mut Faults) {
    let named = |field: &'static str, name: &String| (field, name.clone());
    let literal = container.environment.keys().map(|name| named("environment", name));
    let secret = container.secrets.keys().map(|name| named("secrets", name));
    for (field, name) in literal.chain(secret) {
        faults.require(is_environment_name(&name), format!("{path}.{field}[{name}]"), || {
            format!("{name:?} is no name of a variable: use letters, digits, '_', '-', '.', not starting with a digit")
        });
    }
    for (name, secret) in &container.secrets {
        let path = format!("{path}.secrets[{name}]");
        faults.require(!container.environment.contains_key(name), path.as_str(), || {
            format!("variable {name:?} is in environment as well: keep one")
        });
        faults.require(is_object_name(&secret.name), format!("{path}.name"), || {
            format!("{:?} cannot be the name of a Secret", secret.name)
        });
        faults.require(!secret.key.is_empty(), format!("{path}.key"), || {
            "empty: name a key of the Secret".to_owned()
        });
    }
}

/// The argument vector of a lifecycle hook.
fn hook(
    path: &str,
    field: &str,
    text: Option<&String>,
    faults: &mut Faults,
) -> Option<Vec<String>> {
    let vector = argument_vector(given(text)?);
    faults.require(
        vector.as_ref().is_some_and(|vector| !vector.is_empty()),
        format!("{path}.lifeCycle.{field}"),
        || "not a command: close every quote".to_owned(),
    );
    vector
}

/// Resources with every quantity checked; no request is more than its limit, as the API server asks
/// of every pod.
pub(super) fn resources(
    path: &str,
    resources: Option<&ResourceRequirements>,
    faults: &mut Faults,
) -> ResourceRequirements {
    let resources = resources.cloned().unwrap_or_default();
    for (kind, list) in [("limits", &resources.limits), ("requests", &resources.requests)] {
        for (name, quantity) in list.iter().flatten() {
            faults.require(is_quantity(&quantity.0), format!("{path}.{kind}[{name}]"), || {
                format!("{:?} is not a quantity: write e.g. 4, 500m or 2Gi", quantity.0)
            });
        }
    }
    for (name, request) in resources.requests.iter().flatten() {
        let limit = resources.limits.as_ref().and_then(|limits| limits.get(name));
        let Some(limit) = limit else { continue };
        if let (Some(asked), Some(allowed)) = (billionths(&request.0), billionths(&limit.0)) {
            faults.require(asked <= allowed, format!("{path}.requests[{name}]"), || {
                format!(
                    "{} is more than the limit {}: lower the request or raise the limit",
                    request.0, limit.0
                )
            });
        }
    }
    resources
}
