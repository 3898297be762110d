//! The containers of a pod.

use super::images::Images;
use super::volumes::{
    curve_mount, flux_mounts, install_mount, munge_mount, private_mount, sidecar_mounts,
};
use crate::cluster::{self, AGENT_CONTAINER, CORES_VARIABLE, Cluster, ServicesContainer, Sidecar};
use flux_contract::invocation::REPLACED_VARIABLES;
use flux_contract::{Install, Layout, invocation};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, ExecAction, HTTPGetAction, Lifecycle,
    LifecycleHandler, ObjectFieldSelector, Probe, ResourceRequirements, SecretKeySelector,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeMap;

/// Attempts of the startup probe: so many that it never ends a container. The agent has deadlines
/// of its own and says why it gives up; a probe would only kill it.
const STARTUP_ATTEMPTS: i32 = i32::MAX;
/// Seconds that the answer to the startup probe waits for the broker. So the pod is
/// ready the moment its broker is, and nothing that goes well takes a second attempt, which would be
/// a Warning Event about the first. A worker waits as long for the lead.
const STARTUP_PATIENCE: i32 = 1800;
/// Seconds between two readiness probes. The first follows the startup probe at once, except where the kubelet
/// has started less than this ago: there it comes at a random moment of this time (`run` in
/// `pkg/kubelet/prober/worker.go`), and nodes that are added for a run are such. The kubelet learns up to a second
/// late that a run has ended, and a probe in that second is a Warning Event: the more often the shorter this is.
const READINESS_PERIOD: i32 = 60;
/// Seconds that the answer to a readiness probe waits for a broker that is being started again.
const READINESS_PATIENCE: i32 = 20;
/// Seconds that a probe may take beyond the time that its answer waits, on a node with much to do.
const PROBE_MARGIN: i32 = 10;

/// The init containers in order: those that copy agent and view, where they are not mounted; then
/// sidecars that keep their entrypoint.
pub(super) fn init_containers(
    cluster: &Cluster,
    images: &Images,
    install: Install,
) -> Option<Vec<Container>> {
    let mut all = match install {
        Install::Image => Vec::new(),
        Install::Copy => copiers(cluster, images),
    };
    let sidecars = cluster.sidecars.iter().filter(|sidecar| sidecar.wrapped.is_none());
    all.extend(sidecars.map(|sidecar| plain(cluster, images, sidecar, install)));
    some(all)
}

/// The main containers: the runner, then the sidecars that the agent starts.
pub(super) fn containers(cluster: &Cluster, images: &Images, install: Install) -> Vec<Container> {
    let mut all = vec![runner(cluster, images, install)];
    let sidecars = cluster.sidecars.iter().filter(|sidecar| sidecar.wrapped.is_some());
    all.extend(sidecars.map(|sidecar| wrapped(cluster, images, sidecar, install)));
    all
}

/// One container for each image that is copied: a container sees no image but its own. The view's comes
/// second, because the agent copies it.
fn copiers(cluster: &Cluster, images: &Images) -> Vec<Container> {
    let from = &cluster.flux.view;
    if !from.enabled {
        vec![agent(cluster, images)]
    } else if images.have(from) {
        vec![view(cluster, invocation::install_both(&from.mount_path))]
    } else {
        vec![agent(cluster, images), view(cluster, invocation::install_view(&from.mount_path))]
    }
}

/// Copies the agent into the shared volume.
fn agent(cluster: &Cluster, images: &Images) -> Container {
    let runner = &cluster.runner.container;
    Container {
        name: AGENT_CONTAINER.to_owned(),
        image: Some(images.agent.clone()),
        image_pull_policy: Some(images.agent_pull_policy.clone()),
        command: Some(invocation::install()),
        volume_mounts: Some(vec![install_mount(cluster)]),
        resources: helper_resources(&runner.resources),
        security_context: runner.security_context.clone(),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

/// Copies Flux from the view image into the shared volume, by `command`.
fn view(cluster: &Cluster, command: Vec<String>) -> Container {
    let view = &cluster.flux.view;
    let runner = &cluster.runner.container;
    let own = Some(view.resources.clone()).filter(|own| *own != ResourceRequirements::default());
    Container {
        name: view.name.clone(),
        image: Some(view.image.clone()),
        image_pull_policy: Some(view.pull_policy.clone()),
        command: Some(command),
        working_dir: view.working_dir.clone(),
        volume_mounts: Some(vec![install_mount(cluster)]),
        resources: own.or_else(|| helper_resources(&runner.resources)),
        security_context: view.security_context.clone().or_else(|| runner.security_context.clone()),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

/// CPU and memory of the runner for a container that is gone when the runner starts. That asks for
/// nothing more, keeps a pod `Guaranteed` that would be, and passes a quota that wants limits.
fn helper_resources(runner: &ResourceRequirements) -> Option<ResourceRequirements> {
    let basic = |list: &Option<BTreeMap<_, _>>| {
        let list = list.clone().unwrap_or_default();
        let basic = list.into_iter().filter(|(name, _)| name == "cpu" || name == "memory");
        Some(basic.collect::<BTreeMap<_, _>>()).filter(|list| !list.is_empty())
    };
    let (limits, requests) = (basic(&runner.limits), basic(&runner.requests));
    (limits.is_some() || requests.is_some()).then(|| ResourceRequirements {
        limits,
        requests,
        ..ResourceRequirements::default()
    })
}

/// Runs Flux in the user's image.
fn runner(cluster: &Cluster, images: &Images, install: Install) -> Container {
    let mut mounts = flux_mounts(cluster, images, install);
    mounts.push(private_mount(cluster));
    mounts.push(curve_mount(cluster));
    mounts.extend(munge_mount(cluster));
    let layout = layout(cluster);
    let common = common(&cluster.runner.container, mounts);
    let replaced = cluster.runs_once().then(|| REPLACED_VARIABLES.map(from_annotation));
    let environment = common.env.into_iter().flatten().chain(replaced.into_iter().flatten());
    Container {
        env: some(environment.collect()),
        command: Some(invocation::run(&layout, install)),
        startup_probe: Some(Probe {
            // A kubelet that asks while the container starts finds a closed port, and writes a Warning.
            initial_delay_seconds: Some(1),
            // The kubelet waits for this when a container has started; then no longer.
            period_seconds: Some(1),
            failure_threshold: Some(STARTUP_ATTEMPTS),
            ..ready(STARTUP_PATIENCE)
        }),
        readiness_probe: Some(Probe {
            period_seconds: Some(READINESS_PERIOD),
            failure_threshold: Some(1),
            ..ready(READINESS_PATIENCE)
        }),
        ..common
    }
}

/// Asks the agent, who answers when the pod is ready or after `patience` seconds.
fn ready(patience: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(format!("{}?wait={patience}", invocation::READY_PATH)),
            port: IntOrString::Int(invocation::READY_PORT.into()),
            ..HTTPGetAction::default()
        }),
        timeout_seconds: Some(patience + PROBE_MARGIN),
        ..Probe::default()
    }
}

/// A sidecar whose command the agent runs.
fn wrapped(cluster: &Cluster, images: &Images, sidecar: &Sidecar, install: Install) -> Container {
    let command = invocation::run_sidecar(&layout(cluster), install, &sidecar.container.name);
    let mounts = sidecar_mounts(cluster, images, install);
    Container { command: Some(command), ..common(&sidecar.container, mounts) }
}

/// A sidecar that runs its image's own entrypoint. As a sidecar in the sense of Kubernetes
/// (KEP-753, stable since 1.33) it ends with the runner instead of keeping the Job from completing.
fn plain(cluster: &Cluster, images: &Images, sidecar: &Sidecar, install: Install) -> Container {
    Container {
        restart_policy: Some("Always".to_owned()),
        ..common(&sidecar.container, sidecar_mounts(cluster, images, install))
    }
}

/// A container of the pod of `spec.services`, which knows nothing of Flux.
pub(super) fn of_services_pod(given: &ServicesContainer) -> Container {
    let command = given.command.as_deref().map(|text| words(["sh", "-c", text]));
    Container { command, ..common(&given.container, vec![]) }
}

/// The shared volume as the main containers see it.
fn layout(cluster: &Cluster) -> Layout {
    Layout::new(cluster.flux.view.mount_path.clone())
}

/// What every container of the user has; `mounts` come before the container's own.
fn common(container: &cluster::Container, mut mounts: Vec<VolumeMount>) -> Container {
    mounts.extend(container.mounts.iter().cloned());
    Container {
        name: container.name.clone(),
        image: Some(container.image.clone()),
        image_pull_policy: Some(container.pull_policy.clone()),
        working_dir: container.working_dir.clone(),
        ports: some(container.ports.iter().map(|&port| container_port(port)).collect()),
        env: some(environment(container)),
        volume_mounts: some(mounts),
        resources: Some(container.resources.clone())
            .filter(|resources| *resources != ResourceRequirements::default()),
        security_context: container.security_context.clone(),
        lifecycle: lifecycle(container),
        termination_message_policy: Some("File".to_owned()),
        ..Container::default()
    }
}

fn container_port(number: u16) -> ContainerPort {
    ContainerPort {
        container_port: i32::from(number),
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

/// The number of cores, literal and secret variables in the order of their names, so that what a
/// variable may refer to with `$(NAME)` does not depend on chance. The user's own win.
fn environment(container: &cluster::Container) -> Vec<EnvVar> {
    let cores = (CORES_VARIABLE, literal(CORES_VARIABLE, &container.cores.to_string()));
    let literals =
        container.environment.iter().map(|(name, value)| (name.as_str(), literal(name, value)));
    let secret = container.secrets.iter().map(|(name, (secret, key))| {
        let reference =
            SecretKeySelector { name: secret.clone(), key: key.clone(), optional: None };
        let source = EnvVarSource { secret_key_ref: Some(reference), ..EnvVarSource::default() };
        (name.as_str(), EnvVar { name: name.clone(), value: None, value_from: Some(source) })
    });
    std::iter::once(cores)
        .chain(literals)
        .chain(secret)
        .collect::<BTreeMap<_, _>>()
        .into_values()
        .collect()
}

fn literal(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}

fn from_annotation((name, annotation): (&str, &str)) -> EnvVar {
    let field = ObjectFieldSelector {
        field_path: format!("metadata.annotations['{annotation}']"),
        ..ObjectFieldSelector::default()
    };
    let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
    EnvVar { name: name.to_owned(), value: None, value_from: Some(source) }
}

fn lifecycle(container: &cluster::Container) -> Option<Lifecycle> {
    let handler = |command: &Vec<String>| LifecycleHandler {
        exec: Some(ExecAction { command: Some(command.clone()) }),
        ..LifecycleHandler::default()
    };
    let post_start = container.post_start.as_ref().map(handler);
    let pre_stop = container.pre_stop.as_ref().map(handler);
    (post_start.is_some() || pre_stop.is_some()).then(|| Lifecycle {
        post_start,
        pre_stop,
        ..Lifecycle::default()
    })
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

/// `None` for an empty list, which the API server would drop anyway.
fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}
