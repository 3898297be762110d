//! Finds fields of the Job that the API server dropped because their feature gate is off.

use flux_api::cluster::Cluster;
use flux_api::crd::{InstallMethod, Installed};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::Value;

/// The field of pod-level resources.
const RESOURCES: &str = "spec.pod.resources";

/// The field of device claims.
const OVERLAY: &str = "spec.pod.overlay";

/// Fields that `job` was created with and lacks, each with the feature that it needs. The API server drops fields of
/// disabled features without an error. `changed` has the fields that were edited after the creation.
pub(super) fn dropped(
    cluster: &Cluster,
    install: Option<&Installed>,
    changed: &[String],
    job: &Job,
) -> Vec<String> {
    let Some(pod) = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()) else {
        return Vec::new();
    };
    let mounts = install.is_some_and(|installed| installed.method == InstallMethod::Image);
    let images = (mounts && !mounts_images(pod)).then(|| {
        "the volumes of agent and view (feature ImageVolume, on from Kubernetes 1.35 on): set \
         spec.flux.container.install to Copy"
            .to_owned()
    });
    let is_edited = |path: &str| changed.iter().any(|field| field.starts_with(path));
    let asks = cluster.pod.spec.resources.is_some() && !is_edited(RESOURCES);
    let resources = (asks && pod.resources.is_none())
        .then(|| format!("{RESOURCES} (feature PodLevelResources, on from Kubernetes 1.34 on)"));
    let claims = cluster.pod.overlay.as_ref().map(|overlay| &overlay["resourceClaims"]);
    let asks = claims.and_then(Value::as_array).is_some_and(|claims| !claims.is_empty());
    let claims = (asks && !is_edited(OVERLAY) && pod.resource_claims.is_none()).then(|| {
        format!("{OVERLAY}.resourceClaims (feature DynamicResourceAllocation, on from Kubernetes 1.34 on)")
    });
    images.into_iter().chain(resources).chain(claims).collect()
}

fn mounts_images(pod: &PodSpec) -> bool {
    pod.volumes.iter().flatten().any(|volume| volume.image.is_some())
}
