//! The containers of a pod.

use super::Images;
use super::volumes::{install_mount, runner_mounts, sidecar_mounts};
use crate::cluster::{AGENT_CONTAINER, Cluster, Sidecar};
use flux_contract::invocation::{self, REPLACED_VARIABLES};
use flux_contract::{Install, Layout};
use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, HTTPGetAction, ObjectFieldSelector, Probe,
    ResourceRequirements, VolumeMount,
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
/// Seconds between two readiness probes of an instance that others use while it is up: a lead that is gone leaves the
/// status and the Services within this time. The first follows the startup probe at once, except where the kubelet
/// has started less than this ago: there it comes at a random moment of this time (`run` in
/// `pkg/kubelet/prober/worker.go`), and nodes that are added for a run are such.
const READINESS_PERIOD: i32 = 10;
/// The same of a run of a command, which ends by itself. The kubelet learns up to a second late that it has, and a probe
/// in that second is a Warning Event about a good run: the more often the shorter this is.
const READINESS_PERIOD_OF_COMMAND: i32 = 60;
/// Seconds that the answer to a readiness probe waits for a broker that is being started again.
const READINESS_PATIENCE: i32 = 20;
/// Seconds that a probe may take beyond the time that its answer waits, on a node with much to do.
const PROBE_MARGIN: i32 = 10;

/// Those that copy agent and view, where they are not mounted; then sidecars that keep their entrypoint.
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
    (!all.is_empty()).then_some(all)
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

fn agent(cluster: &Cluster, images: &Images) -> Container {
    let runner = &cluster.runner.container;
    Container {
        name: AGENT_CONTAINER.to_owned(),
        image: Some(images.agent.clone()),
        image_pull_policy: Some(images.agent_pull_policy.clone()),
        command: Some(invocation::install()),
        volume_mounts: Some(vec![install_mount(cluster)]),
        resources: helper_resources(runner),
        security_context: runner.security_context.clone(),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

/// Copies Flux from the view image into the shared volume, by `command`.
fn view(cluster: &Cluster, command: Vec<String>) -> Container {
    let runner = &cluster.runner.container;
    let view = cluster.flux.view.container.clone();
    Container {
        command: Some(command),
        volume_mounts: Some(vec![install_mount(cluster)]),
        resources: view.resources.or_else(|| helper_resources(runner)),
        security_context: view.security_context.or_else(|| runner.security_context.clone()),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..view
    }
}

/// CPU and memory of the runner for a container that is gone when the runner starts. That asks for
/// nothing more, keeps a pod `Guaranteed` that would be, and passes a quota that wants limits.
fn helper_resources(runner: &Container) -> Option<ResourceRequirements> {
    let given = runner.resources.as_ref()?;
    let basic = |list: &Option<BTreeMap<_, _>>| {
        let list = list.clone().unwrap_or_default();
        let basic = list.into_iter().filter(|(name, _)| name == "cpu" || name == "memory");
        Some(basic.collect::<BTreeMap<_, _>>()).filter(|list| !list.is_empty())
    };
    let (limits, requests) = (basic(&given.limits), basic(&given.requests));
    (limits.is_some() || requests.is_some()).then(|| ResourceRequirements {
        limits,
        requests,
        ..ResourceRequirements::default()
    })
}

fn runner(cluster: &Cluster, images: &Images, install: Install) -> Container {
    let mounts = runner_mounts(cluster, images, install);
    let layout = layout(cluster);
    let mut container = mounted(&cluster.runner.container, mounts);
    let replaced = cluster.runs_once().then(|| REPLACED_VARIABLES.map(from_annotation));
    container.env.get_or_insert_default().extend(replaced.into_iter().flatten());
    Container {
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
            period_seconds: Some(if cluster.is_used_while_up() {
                READINESS_PERIOD
            } else {
                READINESS_PERIOD_OF_COMMAND
            }),
            failure_threshold: Some(1),
            ..ready(READINESS_PATIENCE)
        }),
        ..container
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

fn wrapped(cluster: &Cluster, images: &Images, sidecar: &Sidecar, install: Install) -> Container {
    let command = invocation::run_sidecar(&layout(cluster), install, &sidecar.container.name);
    let mounts = sidecar_mounts(cluster, images, install);
    Container { command: Some(command), ..mounted(&sidecar.container, mounts) }
}

/// A sidecar that runs its image's own entrypoint. As a sidecar in the sense of Kubernetes
/// (KEP-753, stable since 1.33) it ends with the runner instead of keeping the Job from completing.
fn plain(cluster: &Cluster, images: &Images, sidecar: &Sidecar, install: Install) -> Container {
    Container {
        restart_policy: Some("Always".to_owned()),
        ..mounted(&sidecar.container, sidecar_mounts(cluster, images, install))
    }
}

fn layout(cluster: &Cluster) -> Layout {
    Layout::new(cluster.flux.view.mount_path.clone())
}

/// `container` with the operator's own `mounts` before its own.
fn mounted(container: &Container, mut mounts: Vec<VolumeMount>) -> Container {
    mounts.extend(container.volume_mounts.iter().flatten().cloned());
    Container { volume_mounts: Some(mounts), ..container.clone() }
}

fn from_annotation((name, annotation): (&str, &str)) -> EnvVar {
    let field = ObjectFieldSelector {
        field_path: format!("metadata.annotations['{annotation}']"),
        ..ObjectFieldSelector::default()
    };
    let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
    EnvVar { name: name.to_owned(), value: None, value_from: Some(source) }
}
