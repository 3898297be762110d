//! The pod template of the Job, and the pod of `spec.services`.

use super::Images;
use super::containers::{containers, init_containers};
use super::meta::{object_meta, pod_labels, services_pod_labels};
use super::volumes::volumes;
use crate::cluster::Cluster;
use anyhow::{Context as _, Result};
use flux_contract::Install;
use k8s_openapi::DeepMerge as _;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub(super) fn template(
    cluster: &Cluster,
    images: &Images,
    install: Install,
) -> Result<PodTemplateSpec> {
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
    PodSpec {
        containers: containers(cluster, images, install),
        init_containers: init_containers(cluster, images, install),
        volumes: Some(volumes(cluster, images, install)),
        ..cluster.pod.spec.clone()
    }
}

/// The pod of `spec.services`, if there is one. The fields it is made from are noted on it as on the Job: a
/// pod cannot be changed either.
pub(super) fn services_pod(cluster: &Cluster) -> Option<Pod> {
    let given = cluster.services_pod.as_ref()?;
    let mut annotations = cluster.pod.annotations.clone();
    annotations.extend([given.fixed_fields.annotation()]);
    let metadata = ObjectMeta {
        labels: Some(services_pod_labels(cluster)),
        annotations: Some(annotations),
        ..object_meta(cluster, &cluster.name.services_pod())
    };
    Some(Pod { metadata, spec: Some(given.spec.clone()), status: None })
}

/// The user's patch of the `PodSpec` on top: lists with a merge key (containers, volumes, ...) are
/// merged by it, as a strategic merge patch does.
fn overlaid(mut spec: PodSpec, overlay: Option<&serde_json::Value>) -> Result<PodSpec> {
    if let Some(overlay) = overlay {
        let overlay: PodSpec = serde_json::from_value(overlay.clone())
            .context("apply the overlay of the pod specification")?;
        spec.merge_from(overlay);
    }
    Ok(spec)
}
