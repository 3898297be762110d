//! Whether a static CPU manager gives the runner exclusive CPUs: a whole number of CPUs in a pod of the class
//! Guaranteed (`guaranteedCPUs` in `pkg/kubelet/cm/cpumanager/policy_static.go` of Kubernetes).

use super::overlay::overlaid;
use crate::cluster::Cluster;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// The number of exclusive CPUs, without containers that webhooks add to the pod.
pub(super) fn exclusive_cpus(cluster: &Cluster) -> Option<u32> {
    let runner = &cluster.runner.container;
    // Without own resources this container gets the runner's, like the container that copies the agent.
    let view = Some(&cluster.flux.view.container).filter(|view| view.resources.is_some());
    let sidecars = cluster.sidecars.iter().map(|sidecar| &sidecar.container);
    let pod = PodSpec {
        containers: [runner].into_iter().chain(sidecars).cloned().collect(),
        init_containers: view.map(|view| vec![view.clone()]),
        ..cluster.pod.spec.clone()
    };
    let pod = overlaid(pod, cluster.pod.overlay.as_ref()).ok()?;
    let mut all = pod.containers.iter().chain(pod.init_containers.iter().flatten());
    if pod.resources.is_some() || !all.all(is_guaranteed) {
        return None;
    }
    let runner = pod.containers.iter().find(|container| container.name == runner.name)?;
    whole(runner.resources.as_ref()?.limits.as_ref()?.get("cpu")?)
}

/// True if requests equal limits; Kubernetes uses the limit as the request if that is missing.
fn is_guaranteed(container: &Container) -> bool {
    let Some(resources) = &container.resources else { return false };
    let of = |list: &Option<BTreeMap<String, Quantity>>, name| list.as_ref()?.get(name).cloned();
    ["cpu", "memory"].into_iter().all(|name| {
        let limit = of(&resources.limits, name);
        limit.is_some() && of(&resources.requests, name).is_none_or(|it| Some(it) == limit)
    })
}

/// The number of CPUs if it is whole, e.g. of `2` or `2000m`.
fn whole(Quantity(text): &Quantity) -> Option<u32> {
    let thousandths = || text.strip_suffix('m')?.parse::<u32>().ok();
    let of_thousandths = || thousandths().filter(|it| it.is_multiple_of(1000)).map(|it| it / 1000);
    text.parse().ok().or_else(of_thousandths).filter(|count| *count > 0)
}
