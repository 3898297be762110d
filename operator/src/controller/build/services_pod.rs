//! The pod `<name>-services`: what the workload needs beside the Flux instance.

use super::containers::service;
use super::meta::{object_meta, services_labels};
use super::pod::{common, references};
use crate::cluster::Cluster;
use crate::controller::job_change::{Fingerprint, GENERATION_ANNOTATION};
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The services pod. `generation` and a fingerprint are noted as on the Job: a pod cannot be
/// changed either.
pub(super) fn services_pod(cluster: &Cluster, generation: i64) -> Option<Pod> {
    let services = cluster.services.as_ref()?;
    let name = cluster.name.services_pod();
    let containers = &services.containers;
    let secrets = containers.iter().filter_map(|it| it.container.pull_secret.as_ref());
    let spec = PodSpec {
        containers: containers.iter().map(service).collect(),
        // Found as `<name>-services.<headlessName>`.
        hostname: Some(name.clone()),
        image_pull_secrets: references(secrets),
        // A service that fails comes back; one that has done its work is not repeated.
        restart_policy: Some("OnFailure".to_owned()),
        volumes: Some(services.volumes.clone()).filter(|volumes| !volumes.is_empty()),
        ..common(cluster)
    };
    let annotations = cluster.pod.annotations.clone();
    let mut metadata = ObjectMeta {
        labels: Some(services_labels(cluster)),
        annotations: Some(annotations),
        ..object_meta(cluster, &name)
    };
    let template = PodTemplateSpec { metadata: Some(metadata.clone()), spec: Some(spec.clone()) };
    let notes = [
        (GENERATION_ANNOTATION.to_owned(), generation.to_string()),
        Fingerprint::of(&template).annotation(),
    ];
    metadata.annotations.get_or_insert_default().extend(notes);
    Some(Pod { metadata, spec: Some(spec), status: None })
}
