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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{built_with, cluster};
    use crate::controller::observe::stores::strip_job;
    use InstallMethod::{Copy, Image};
    use flux_contract::Install;
    use serde_json::json;

    /// As `dropImageVolumes`, `dropDisabledPodLevelResources` and `dropDisabledDynamicResourceAllocationFields` do it in
    /// `pkg/api/pod/util.go`.
    fn drop_all(pod: &mut PodSpec) {
        pod.volumes.as_mut().unwrap().retain(|volume| volume.image.is_none());
        pod.resources = None;
        pod.resource_claims = None;
    }

    #[test]
    fn dropped_fields_are_named_and_no_others() {
        let (image, resources) = ("the volumes of agent and view", "spec.pod.resources");
        let memory = json!({ "memory": "1Gi" });
        let whole = json!({ "pod": { "resources": memory } });
        let overhead = json!({ "pod": { "resources": memory, "runtimeClassName": "kata" } });
        let claims = "spec.pod.overlay.resourceClaims";
        let claim = json!([{ "name": "gpu", "resourceClaimTemplateName": "gpu" }]);
        let claimed = json!({ "pod": { "overlay": { "resourceClaims": claim } } });
        let keep: fn(&mut PodSpec) = |_| ();
        for (spec, method, change, edited, expected) in [
            (&whole, Image, keep, &[][..], &[][..]),
            (&whole, Image, drop_all, &[], &[image, resources]),
            (&whole, Copy, keep, &[], &[]),
            (&whole, Copy, drop_all, &[], &[resources]),
            (&whole, Copy, drop_all, &[resources], &[]),
            (&overhead, Copy, keep, &[], &[]),
            (&claimed, Copy, keep, &[], &[]),
            (&claimed, Copy, drop_all, &[], &[claims]),
            (&claimed, Copy, drop_all, &["spec.pod.overlay"], &[]),
            (&json!({}), Image, keep, &[], &[]),
        ] {
            let cluster = cluster(spec);
            let installed = Installed { method, reason: "requested".to_owned() };
            let built = if method == Image { Install::Image } else { Install::Copy };
            let mut job = built_with(&cluster, built).job;
            change(job.spec.as_mut().unwrap().template.spec.as_mut().unwrap());
            let edited: Vec<String> = edited.iter().map(|it: &&str| (*it).to_owned()).collect();
            let found = dropped(&cluster, Some(&installed), &edited, &job);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(
                found.iter().zip(expected).all(|(it, begin)| it.starts_with(begin)),
                "{found:?}"
            );
            // The stripped Job of the store gives the same result.
            strip_job(&mut job);
            assert_eq!(dropped(&cluster, Some(&installed), &edited, &job), found);
        }
    }
}
