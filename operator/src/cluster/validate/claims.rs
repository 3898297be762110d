//! Claims of devices: which of those that the pod has a container may name.

use super::violations::Violations;
use crate::crd::MiniClusterSpec;
use k8s_openapi::api::core::v1::ResourceRequirements;
use serde_json::Value;
use std::collections::BTreeSet;

const LISTED: &str = "spec.pod.overlay.resourceClaims";

/// A container names claims of its pod (`resources.claims`), and the overlay gives the pod these. The API server would
/// refuse the Job by a path that is in no MiniCluster.
pub(super) fn claims(spec: &MiniClusterSpec, faults: &mut Violations) {
    let listed = spec.pod.overlay.as_ref().map(|overlay| &overlay["resourceClaims"]);
    let listed = listed.and_then(Value::as_array).into_iter().flatten();
    let listed: BTreeSet<&str> = listed.filter_map(|claim| claim["name"].as_str()).collect();
    let view = ("spec.flux.container".to_owned(), spec.flux.container.resources.as_ref());
    let containers = spec.containers.iter().enumerate();
    let containers =
        containers.map(|(index, it)| (format!("spec.containers[{index}]"), it.resources.as_ref()));
    for (path, resources) in std::iter::once(view).chain(containers) {
        for (position, name) in names(resources).enumerate() {
            let path = format!("{path}.resources.claims[{position}].name");
            faults.require(listed.contains(name), path, || {
                format!("{name:?} is no claim of the pods: add it to {LISTED}, or remove it")
            });
        }
    }
    for (index, service) in spec.services.iter().enumerate() {
        let path = format!("spec.services[{index}].resources.claims");
        faults.require(names(service.resources.as_ref()).next().is_none(), path, || {
            format!("{LISTED} is for the pods that run Flux: remove them, or move the container to spec.containers")
        });
    }
}

fn names(resources: Option<&ResourceRequirements>) -> impl Iterator<Item = &str> {
    let claims = resources.and_then(|resources| resources.claims.as_ref());
    claims.into_iter().flatten().map(|claim| claim.name.as_str())
}
