//! The pod of `spec.services`, `<name>-services`: what the workload needs beside the Flux instance.

use super::containers::of_services_pod;
use super::meta::{object_meta, services_pod_labels};
use super::pod::{common, references};
use crate::cluster::Cluster;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The pod. The fields it is made from are noted on it as on the Job: a pod cannot be
/// changed either.
pub(super) fn services_pod(cluster: &Cluster) -> Option<Pod> {
    let given = cluster.services_pod.as_ref()?;
    let name = cluster.name.companion_pod();
    let containers = &given.containers;
    let secrets = containers.iter().filter_map(|it| it.container.pull_secret.as_ref());
    let spec = PodSpec {
        containers: containers.iter().map(of_services_pod).collect(),
        // Found as `<name>-services.<headlessName>`.
        hostname: Some(name.clone()),
        image_pull_secrets: references(secrets),
        // A service that fails comes back; one that has done its work is not repeated.
        restart_policy: Some("OnFailure".to_owned()),
        volumes: Some(given.volumes.clone()).filter(|volumes| !volumes.is_empty()),
        ..common(cluster)
    };
    let mut annotations = cluster.pod.annotations.clone();
    annotations.extend([given.fixed_fields.annotation()]);
    let metadata = ObjectMeta {
        labels: Some(services_pod_labels(cluster)),
        annotations: Some(annotations),
        ..object_meta(cluster, &name)
    };
    Some(Pod { metadata, spec: Some(spec), status: None })
}
