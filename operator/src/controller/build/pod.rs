//! The pod template.

use super::affinity::affinity;
use super::containers::{containers, init_containers};
use super::error::BuildError;
use super::images::Images;
use super::meta::pod_labels;
use super::volumes::volumes;
use crate::cluster::{Cluster, Pod};
use flux_contract::{Install, Shutdown};
use k8s_openapi::DeepMerge as _;
use k8s_openapi::api::core::v1::{
    LocalObjectReference, PodSpec, PodTemplateSpec, ResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};

/// What all pods of the Job are made from.
pub(super) fn template(
    cluster: &Cluster,
    images: &Images,
    install: Install,
) -> Result<PodTemplateSpec, BuildError> {
    let pod = pod_spec(cluster, images, install);
    let annotations = &cluster.pod.annotations;
    Ok(PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(pod_labels(cluster)),
            annotations: (!annotations.is_empty()).then(|| annotations.clone()),
            ..ObjectMeta::default()
        }),
        spec: Some(overlaid(pod, cluster.pod.overlay.as_ref())?),
    })
}

fn pod_spec(cluster: &Cluster, images: &Images, install: Install) -> PodSpec {
    let overhead = pod_overhead(&cluster.pod);
    PodSpec {
        affinity: affinity(cluster),
        containers: containers(cluster, images, install),
        image_pull_secrets: pull_secrets(cluster),
        init_containers: init_containers(cluster, images, install),
        overhead,
        resources: pod_resources(&cluster.pod),
        restart_policy: Some(cluster.pod.restart_policy.clone()),
        termination_grace_period_seconds: grace_period(&cluster.pod),
        volumes: Some(volumes(cluster, images, install)),
        ..common(cluster)
    }
}

/// What the Job's pods and that of `spec.services` have in common.
pub(super) fn common(cluster: &Cluster) -> PodSpec {
    let pod = &cluster.pod;
    PodSpec {
        // No container needs the API unless the user says so.
        automount_service_account_token: Some(pod.automount_service_account_token),
        dns_policy: pod.dns_policy.clone(),
        // A namespace with many Services would fill the environment with their addresses.
        enable_service_links: Some(false),
        host_ipc: pod.host_ipc.then_some(true),
        host_pid: pod.host_pid.then_some(true),
        node_selector: (!pod.node_selector.is_empty()).then(|| pod.node_selector.clone()),
        runtime_class_name: pod.runtime_class_name.clone(),
        scheduler_name: pod.scheduler_name.clone(),
        security_context: pod.security_context.clone(),
        service_account_name: pod.service_account_name.clone(),
        // A rank is found by the plain host name, `<name>-<index>`.
        set_hostname_as_fqdn: Some(false),
        share_process_namespace: pod.share_process_namespace.then_some(true),
        subdomain: Some(cluster.network.headless_name.clone()),
        tolerations: (!pod.tolerations.is_empty()).then(|| pod.tolerations.clone()),
        ..PodSpec::default()
    }
}

/// An overhead without a runtime class that defines the same one makes the API server refuse every pod, so
/// without a class the resources are the pod's own.
fn pod_overhead(pod: &Pod) -> Option<BTreeMap<String, Quantity>> {
    let given = pod.runtime_class_name.is_some() && !pod.resources.is_empty();
    given.then(|| pod.resources.clone())
}

/// Pod-level resources, where they are no overhead.
pub(in crate::controller) fn pod_resources(pod: &Pod) -> Option<ResourceRequirements> {
    let given = pod.runtime_class_name.is_none() && !pod.resources.is_empty();
    given.then(|| ResourceRequirements {
        requests: Some(pod.resources.clone()),
        ..ResourceRequirements::default()
    })
}

/// The time that a pod has to end, unless it is what Kubernetes gives anyhow.
fn grace_period(pod: &Pod) -> Option<i64> {
    let given = pod.grace_seconds != Shutdown::DEFAULT_GRACE_SECONDS;
    given.then(|| i64::try_from(pod.grace_seconds).unwrap_or(i64::MAX))
}

/// Pull secrets of all images, each once, in order of their names.
fn pull_secrets(cluster: &Cluster) -> Option<Vec<LocalObjectReference>> {
    let containers = cluster.sidecars.iter().map(|sidecar| &sidecar.container);
    let containers = containers.chain([&cluster.runner.container]);
    let secrets = containers.map(|container| &container.pull_secret);
    let view = Some(&cluster.flux.view.pull_secret).filter(|_| cluster.flux.view.enabled);
    references(secrets.chain(view).flatten())
}

/// References to objects called `names`, each once, in order.
pub(super) fn references<'names>(
    names: impl Iterator<Item = &'names String>,
) -> Option<Vec<LocalObjectReference>> {
    let names: BTreeSet<&String> = names.collect();
    let references = names.into_iter().map(|name| LocalObjectReference { name: name.clone() });
    let references: Vec<_> = references.collect();
    (!references.is_empty()).then_some(references)
}

/// The user's patch of the `PodSpec` on top: lists with a merge key (containers, volumes, ...) are
/// merged by it, as a strategic merge patch does.
fn overlaid(mut spec: PodSpec, overlay: Option<&serde_json::Value>) -> Result<PodSpec, BuildError> {
    if let Some(overlay) = overlay {
        let overlay: PodSpec = serde_json::from_value(overlay.clone())
            .map_err(|source| BuildError::Overlay { source })?;
        spec.merge_from(overlay);
    }
    Ok(spec)
}
