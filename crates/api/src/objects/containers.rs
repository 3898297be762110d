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

/// Number of failures of the startup probe after which the kubelet kills the container: never, because the agent has
/// its own deadlines and reports why it ends.
const STARTUP_FAILURES: i32 = i32::MAX;
/// Seconds for which the agent delays its response to the startup probe until the broker is ready. So the pod becomes
/// ready together with its broker, and a good start needs no second probe, which would come with a Warning Event
/// about the first. A worker waits equally long for the lead.
const STARTUP_WAIT: i32 = 1800;
/// Seconds between two readiness probes of an instance that others use while it runs: within this time a lead that is
/// gone leaves status and Services. The first follows the startup probe at once; but a kubelet that was started less
/// than this ago, as on a new node, sends it at a random moment of this time (`run` in `pkg/kubelet/prober/worker.go`).
const READINESS_PERIOD: i32 = 10;
/// The same for the run of a command. The kubelet notices its end up to a second late, and a probe within that second
/// makes a Warning Event about a good run, which is more likely with a shorter period.
const READINESS_PERIOD_OF_COMMAND: i32 = 60;
/// Seconds for which the agent delays its response to a readiness probe while the broker is being restarted.
const READINESS_WAIT: i32 = 20;
/// Seconds that a probe may take in addition to the delay, on a busy node.
const PROBE_MARGIN: i32 = 10;

/// The init containers: those that copy agent and view, if they are copied, then sidecars with their own entrypoint.
pub(super) fn init_containers(
    cluster: &Cluster,
    images: &Images,
    install: Install,
) -> Option<Vec<Container>> {
    let mut all = match install {
        Install::Image => Vec::new(),
        Install::Copy => init_copy_containers(cluster, images),
    };
    let sidecars = cluster.sidecars.iter().filter(|sidecar| sidecar.wrapped.is_none());
    all.extend(sidecars.map(|sidecar| native_sidecar(cluster, images, sidecar, install)));
    (!all.is_empty()).then_some(all)
}

/// The main containers: the runner, then the sidecars that the agent starts.
pub(super) fn containers(cluster: &Cluster, images: &Images, install: Install) -> Vec<Container> {
    let mut all = vec![runner(cluster, images, install)];
    let sidecars = cluster.sidecars.iter().filter(|sidecar| sidecar.wrapped.is_some());
    all.extend(sidecars.map(|sidecar| agent_sidecar(cluster, images, sidecar, install)));
    all
}

/// One init container for each image that is copied. The view is second, because the agent copies it.
fn init_copy_containers(cluster: &Cluster, images: &Images) -> Vec<Container> {
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

/// The runner's CPU and memory, for a container that ends before the runner starts. So the pod requests nothing more,
/// stays `Guaranteed`, and fits a quota that requires limits.
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
            // A probe while the container starts would find a closed port and make a Warning Event.
            initial_delay_seconds: Some(1),
            // Only the first probe waits for this period.
            period_seconds: Some(1),
            failure_threshold: Some(STARTUP_FAILURES),
            ..probe(STARTUP_WAIT)
        }),
        readiness_probe: Some(Probe {
            period_seconds: Some(if cluster.is_used_while_up() {
                READINESS_PERIOD
            } else {
                READINESS_PERIOD_OF_COMMAND
            }),
            failure_threshold: Some(1),
            ..probe(READINESS_WAIT)
        }),
        ..container
    }
}

/// A probe of the agent, which responds when the pod is ready, or after `wait` seconds.
fn probe(wait: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(format!("{}?wait={wait}", invocation::READY_PATH)),
            port: IntOrString::Int(invocation::READY_PORT.into()),
            ..HTTPGetAction::default()
        }),
        timeout_seconds: Some(wait + PROBE_MARGIN),
        ..Probe::default()
    }
}

fn agent_sidecar(
    cluster: &Cluster,
    images: &Images,
    given: &Sidecar,
    install: Install,
) -> Container {
    let command = invocation::run_sidecar(&layout(cluster), install, &given.container.name);
    let mounts = sidecar_mounts(cluster, images, install);
    Container { command: Some(command), ..mounted(&given.container, mounts) }
}

/// A sidecar with its image's own entrypoint. As a sidecar container of Kubernetes (KEP-753, stable since 1.33) it
/// ends after the runner and does not keep the Job from completing.
fn native_sidecar(
    cluster: &Cluster,
    images: &Images,
    given: &Sidecar,
    install: Install,
) -> Container {
    Container {
        restart_policy: Some("Always".to_owned()),
        ..mounted(&given.container, sidecar_mounts(cluster, images, install))
    }
}

fn layout(cluster: &Cluster) -> Layout {
    Layout::new(cluster.flux.view.mount_path.clone())
}

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
