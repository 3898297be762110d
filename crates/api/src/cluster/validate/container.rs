//! `spec.containers` and `spec.services`: the runner, the sidecars and the services.

use super::text::{
    argument_vector, is_absolute_path, is_data_key, is_label, is_variable, non_empty,
    non_empty_owned,
};
use super::violations::Violations;
use super::volume::Volumes;
use super::work::workload;
use crate::cluster::{
    AGENT_CONTAINER, CORES_VARIABLE, FixedFields, Runner, ServicesPod, Sidecar, View,
};
use crate::crd::{self, MiniClusterSpec, UserAccount};
use flux_contract::invocation::READY_PORT;
use flux_contract::{ClusterName, FluxUser, Hooks, Layout, OVERLAY_PORT, SidecarConfig};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, ExecAction, Lifecycle, LifecycleHandler,
    LocalObjectReference, PodSpec, ResourceRequirements, SecretKeySelector,
};
use std::collections::{BTreeMap, BTreeSet};

/// Largest uid that Kubernetes accepts in a security context.
const USER_ID_LIMIT: i64 = 2_147_483_647;

pub(super) struct Containers {
    /// The container that runs Flux; absent if there is not exactly one.
    pub(super) runner: Option<Runner>,
    pub(super) sidecars: Vec<Sidecar>,
    /// The shared pod specification with the volumes and pull secrets of the Job's pods.
    pub(super) pod: PodSpec,
}

/// Resolves and checks all containers of the MiniCluster `name`, whose pods have the specification `shared`.
pub(super) fn containers(
    name: &str,
    spec: &MiniClusterSpec,
    view: &View,
    shared: &PodSpec,
    faults: &mut Violations,
) -> Containers {
    let mut paths = vec![view.mount_path.clone(), "/flux_operator".to_owned()];
    let mut pull_secret = None;
    if view.enabled {
        paths.push(Layout::SOFTWARE_MOUNT.to_owned());
        pull_secret = non_empty_owned(spec.flux.container.image_pull_secret.as_ref());
    }
    let mut parts = PodParts::new(&paths, pull_secret);
    parts.volumes.reserved_names = own_volumes(name);
    parts.volumes.reserved_names.push(view.container.name.clone());
    let mut names = BTreeSet::from([AGENT_CONTAINER, name, view.container.name.as_str()]);
    let position = runner_position(&spec.containers);
    // The headless Service has the name of the pods' subdomain.
    let headless_name = shared.subdomain.clone().unwrap_or_default();
    let mut addresses = BTreeSet::from([headless_name, format!("{name}-lead")]);
    addresses.extend(spec.flux.rest.as_ref().map(|_| format!("{name}-rest")));
    let (mut flux, mut sidecars) = (None, Vec::new());
    for (index, container) in spec.containers.iter().enumerate() {
        let path = format!("spec.containers[{index}]");
        if position == Some(index) {
            let own = parts.container(&path, name, container, faults);
            flux = runner(&path, spec, container, own, faults);
            continue;
        }
        let own = parts.container(&path, own_name(container), container, faults);
        container_name(&path, container, &mut names, faults);
        reserved_ports(&path, spec, container, faults);
        if position.is_some() {
            if let Some(sidecar) = non_empty(container.name.as_ref())
                && !container.ports.is_empty()
            {
                service_names(&path, sidecar, name, &mut addresses, faults);
            }
            let wrapped = wrapped(spec, container);
            sidecars.push(Sidecar { field: path, container: own, wrapped });
        }
    }
    Containers { runner: flux, sidecars, pod: parts.into_spec(shared) }
}

pub(super) fn services_pod(
    name: Option<String>,
    spec: &MiniClusterSpec,
    shared: &PodSpec,
    faults: &mut Violations,
) -> Option<ServicesPod> {
    let mut parts = PodParts::new(&[], None);
    let (mut containers, mut names) = (Vec::new(), BTreeSet::new());
    for (index, given) in spec.services.iter().enumerate() {
        let path = format!("spec.services[{index}]");
        container_name(&path, given, &mut names, faults);
        let mut container = parts.container(&path, own_name(given), given, faults);
        let command = non_empty_owned(given.command.as_ref());
        container.command = command.map(|text| vec!["sh".to_owned(), "-c".to_owned(), text]);
        containers.push(container);
    }
    (!containers.is_empty()).then(|| ServicesPod {
        spec: PodSpec {
            containers,
            // The DNS name is `<name>-services.<headlessName>`.
            hostname: name,
            // A service that fails is started again; one that ended with 0 is not.
            restart_policy: Some("OnFailure".to_owned()),
            ..parts.into_spec(shared)
        },
        fixed_fields: FixedFields::of_services(spec),
    })
}

/// The name of a container, which a rule of the definition requires.
fn own_name(container: &crd::Container) -> &str {
    container.name.as_deref().unwrap_or_default()
}

/// Names of the operator's volumes in the pods of the MiniCluster `cluster`, except the shared one.
pub(super) fn own_volumes(cluster: &str) -> Vec<String> {
    let suffixed = ClusterName::new(cluster).ok().map(|name| {
        [
            name.private_volume(),
            name.agent_config_map(),
            name.curve_volume(),
            name.rest_tls_volume(),
            name.munge_volume(),
            name.agent_image_volume(),
            name.view_image_volume(),
            name.software_volume(),
        ]
    });
    suffixed.into_iter().flatten().collect()
}

/// Checks the name of a container that does not run Flux; `names` are the other names in its pod.
fn container_name<'spec>(
    path: &str,
    container: &'spec crd::Container,
    names: &mut BTreeSet<&'spec str>,
    faults: &mut Violations,
) {
    // A rule of the definition requires a name.
    let Some(name) = non_empty(container.name.as_ref()) else { return };
    let path = format!("{path}.name");
    faults.require(is_label(name), &path, || {
        format!(
            "{name:?} is no name of a container: use at most 63 lower-case letters, digits and '-'"
        )
    });
    faults.require(names.insert(name), path, || {
        format!("{name:?} is the name of another container of the pod, or of the operator's: use another")
    });
}

/// Refuses ports of Flux and its agent in other containers, because containers of a pod share its ports.
fn reserved_ports(
    path: &str,
    spec: &MiniClusterSpec,
    container: &crd::Container,
    faults: &mut Violations,
) {
    let own = [OVERLAY_PORT, READY_PORT].map(i32::from);
    for (index, port) in container.ports.iter().enumerate() {
        let is_free =
            !own.contains(port) && spec.flux.rest.as_ref().is_none_or(|rest| rest.port != *port);
        faults.require(is_free, format!("{path}.ports[{index}]"), || {
            format!("{port} is a port of Flux, its agent or its API in the same pod: use another")
        });
    }
}

/// Checks the names of the Services for the ports of the sidecar `name`: the long one, which is unique in the
/// namespace, and the alias. `services` are the names of the MiniCluster's other Services.
fn service_names(
    path: &str,
    name: &str,
    cluster: &str,
    services: &mut BTreeSet<String>,
    faults: &mut Violations,
) {
    let path = format!("{path}.name");
    let unique = format!("{cluster}-{name}");
    faults.require(unique.len() <= 63, path.as_str(), || {
        format!("its ports need the Service {unique:?}, whose name has more than 63 characters: use a shorter name")
    });
    for service in [name.to_owned(), unique] {
        faults.require(!services.contains(&service), path.as_str(), || {
            format!("its ports need the Service {service:?}, which is another Service of this MiniCluster: use another name")
        });
        services.insert(service);
    }
}

/// Names of the containers that the agent starts, in the pods of the MiniCluster `name`.
pub(super) fn started_by_the_agent<'name>(
    name: &'name str,
    spec: &'name MiniClusterSpec,
) -> Vec<&'name str> {
    let runner = runner_position(&spec.containers);
    let sidecars = spec.containers.iter().enumerate();
    let sidecars =
        sidecars.filter(|(index, it)| runner != Some(*index) && wrapped(spec, it).is_some());
    std::iter::once(name).chain(sidecars.map(|(_, it)| own_name(it))).collect()
}

/// What the agent runs in a sidecar; `None` if the image's own entrypoint runs.
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

/// Index of the container that runs Flux; `None` if there is not exactly one, which the definition refuses.
pub fn runner_position(containers: &[crd::Container]) -> Option<usize> {
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

fn runner(
    path: &str,
    spec: &MiniClusterSpec,
    container: &crd::Container,
    own: Container,
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
    Some(Runner { container: own, user, hooks, workload })
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

/// The added capabilities, which Kubernetes gives only to root and the agent also gives to Flux's user.
fn added_capabilities(container: &crd::Container) -> Vec<String> {
    let context = container.security_context.as_ref();
    let capabilities = context.and_then(|context| context.capabilities.as_ref());
    capabilities.and_then(|capabilities| capabilities.add.clone()).unwrap_or_default()
}

/// True for a portable account name (useradd(8)).
fn is_account_name(name: &str) -> bool {
    let first = |c: char| c.is_ascii_lowercase() || c == '_';
    name.len() <= 32
        && name.starts_with(first)
        && name.chars().all(|c| first(c) || c.is_ascii_digit() || c == '-')
}

/// The volumes and pull secrets of a pod, found in its containers.
struct PodParts<'cluster> {
    volumes: Volumes<'cluster>,
    pull_secrets: BTreeSet<String>,
}

impl<'cluster> PodParts<'cluster> {
    /// The parts of a pod without containers; `reserved_paths` are the operator's.
    fn new(reserved_paths: &'cluster [String], pull_secret: Option<String>) -> Self {
        Self {
            volumes: Volumes {
                reserved_paths,
                reserved_names: Vec::new(),
                by_name: BTreeMap::new(),
            },
            pull_secrets: pull_secret.into_iter().collect(),
        }
    }

    fn into_spec(self, shared: &PodSpec) -> PodSpec {
        let secrets = self.pull_secrets.into_iter().map(|name| LocalObjectReference { name });
        let volumes = self.volumes.by_name.into_values().map(|(_, volume)| volume);
        PodSpec {
            image_pull_secrets: non_empty_list(secrets.collect()),
            volumes: non_empty_list(volumes.collect()),
            ..shared.clone()
        }
    }

    /// The container `name` without its command; `path` is its place in the specification.
    fn container(
        &mut self,
        path: &str,
        name: &str,
        container: &crd::Container,
        faults: &mut Violations,
    ) -> Container {
        if let Some(directory) = non_empty(container.working_dir.as_ref()) {
            faults.require(is_absolute_path(directory), format!("{path}.workingDir"), || {
                format!("{directory:?} is not an absolute path without '..'")
            });
        }
        check_image(path, container, faults);
        check_environment(path, container, faults);
        self.pull_secrets.extend(non_empty_owned(container.image_pull_secret.as_ref()));
        let mounts = self.volumes.mount(path, &container.volumes, faults);
        let resources = container.resources.clone();
        Container {
            name: name.to_owned(),
            image: container.image.clone(),
            image_pull_policy: Some(pull_policy(container)),
            working_dir: non_empty_owned(container.working_dir.as_ref()),
            ports: non_empty_list(container.ports.iter().copied().map(container_port).collect()),
            env: Some(environment(container)),
            volume_mounts: non_empty_list(mounts),
            resources: resources.filter(|resources| *resources != ResourceRequirements::default()),
            security_context: container.security_context.clone(),
            lifecycle: lifecycle(path, container, faults),
            termination_message_policy: Some("File".to_owned()),
            ..Container::default()
        }
    }
}

/// Checks the image, which a rule of the definition requires.
fn check_image(path: &str, container: &crd::Container, faults: &mut Violations) {
    let image = non_empty(container.image.as_ref()).unwrap_or_default();
    faults.require(image.trim() == image, format!("{path}.image"), || {
        format!("{image:?} begins or ends with white space: remove it")
    });
}

fn check_environment(path: &str, container: &crd::Container, faults: &mut Violations) {
    let (given, secrets) = (&container.environment, &container.secrets);
    let named = given.keys().map(|name| (name, "environment"));
    for (variable, field) in named.chain(secrets.keys().map(|name| (name, "secrets"))) {
        faults.require(is_variable(variable), format!("{path}.{field}[{variable}]"), || {
            format!("{variable:?} is no name of a variable: use printable ASCII characters other than '='")
        });
    }
    for (variable, crd::SecretKey { name, key }) in secrets {
        let path = format!("{path}.secrets[{variable}]");
        faults.require(!given.contains_key(variable), path.as_str(), || {
            format!("variable {variable:?} is in environment as well: keep one")
        });
        faults.require(!name.is_empty() && is_data_key(key), path, || {
            format!("{name:?} is no name of a Secret, or {key:?} no key of one: correct them")
        });
    }
}

fn pull_policy(container: &crd::Container) -> String {
    let policy = non_empty(container.image_pull_policy.as_ref()).unwrap_or("IfNotPresent");
    if container.pull_always { "Always" } else { policy }.to_owned()
}

fn container_port(container_port: i32) -> ContainerPort {
    let protocol = Some("TCP".to_owned());
    ContainerPort { container_port, protocol, ..ContainerPort::default() }
}

/// The number of cores, literal variables and secret variables, in the order of their names, because `$(NAME)` can
/// only refer to an earlier variable. The user's own variables win.
fn environment(container: &crd::Container) -> Vec<EnvVar> {
    let literal = |name: &str, value: String| EnvVar {
        name: name.to_owned(),
        value: Some(value),
        value_from: None,
    };
    let cores = container.cores.unwrap_or(1).to_string();
    let cores = (CORES_VARIABLE, literal(CORES_VARIABLE, cores));
    let literals = container.environment.iter();
    let literals = literals.map(|(name, value)| (name.as_str(), literal(name, value.clone())));
    let secrets = container.secrets.iter().map(|(name, crd::SecretKey { name: secret, key })| {
        let reference =
            SecretKeySelector { name: secret.clone(), key: key.clone(), optional: None };
        let source = EnvVarSource { secret_key_ref: Some(reference), ..EnvVarSource::default() };
        (name.as_str(), EnvVar { name: name.clone(), value: None, value_from: Some(source) })
    });
    let all = std::iter::once(cores).chain(literals).chain(secrets);
    all.collect::<BTreeMap<_, _>>().into_values().collect()
}

fn lifecycle(path: &str, container: &crd::Container, faults: &mut Violations) -> Option<Lifecycle> {
    let given = container.life_cycle.clone().unwrap_or_default();
    let mut hook = |field: &str, text: Option<&String>| {
        let vector = argument_vector(non_empty(text)?);
        faults.require(
            vector.as_ref().is_some_and(|vector| !vector.is_empty()),
            format!("{path}.lifeCycle.{field}"),
            || "not a command: close every quote".to_owned(),
        );
        let exec = Some(ExecAction { command: vector });
        Some(LifecycleHandler { exec, ..LifecycleHandler::default() })
    };
    let post_start = hook("postStartExec", given.post_start_exec.as_ref());
    let pre_stop = hook("preStopExec", given.pre_stop_exec.as_ref());
    let lifecycle = Lifecycle { post_start, pre_stop, ..Lifecycle::default() };
    Some(lifecycle).filter(|lifecycle| *lifecycle != Lifecycle::default())
}

/// `None` for an empty list, which the API server would drop.
pub(super) fn non_empty_list<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}
