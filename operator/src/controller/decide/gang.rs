//! Decides the PodGroup of a gang.

use super::change::Change;
use crate::controller::error::Error;
use crate::controller::observe::gang::ObservedPodGroups;
use flux_api::cluster::Cluster;
use flux_api::crd::Gang;
use flux_api::objects::gang::{GangScheduler, choose, join};
use k8s_openapi::api::batch::v1::Job;
use kube::api::DynamicObject;

/// Field of Kubernetes' PodGroup that holds the topology (`PodGroupSpec` in `k8s.io/api/scheduling/v1beta1`, 1.37).
const CONSTRAINTS_FIELD: &str = "schedulingConstraints";

#[derive(Debug, Default)]
pub(crate) struct GangPlan {
    pub(crate) pod_group: Option<(GangScheduler, Change<DynamicObject>)>,
    /// Fields that have no effect in this cluster, each with what the cluster lacks.
    pub(crate) lacking: Vec<String>,
}

/// Marks the pods of the desired `job` as members of a gang if `cluster` asks for one, and decides the change of the
/// PodGroup. An existing `live_job` keeps the scheduler that it was created with.
pub(crate) fn plan_gang(
    cluster: &Cluster,
    observed: &ObservedPodGroups,
    live_job: Option<&Job>,
    job: &mut Job,
) -> Result<GangPlan, Error> {
    if cluster.gang == Gang::None {
        return Ok(GangPlan::default());
    }
    let scheduler = if let Some(live) = live_job {
        GangScheduler::noted_on(live)
    } else {
        let served: Vec<GangScheduler> = observed.iter().map(|(it, _)| *it).collect();
        let template = &job.spec.get_or_insert_default().template;
        choose(cluster.gang, template, &served).map_err(Error::NoPodGroups)?
    };
    let live = observed.iter().find(|(served, _)| Some(*served) == scheduler);
    let live = live.and_then(|(_, pod_group)| pod_group.as_ref());
    let lacking = lacking(cluster, scheduler, live);
    // A Job that was created without a gang stays without one.
    let Some(scheduler) = scheduler else { return Ok(GangPlan { pod_group: None, lacking }) };
    let desired = join(scheduler, cluster, job);
    let change = match live.filter(|_| live_job.is_some()) {
        Some(live) => change_of_live(scheduler, live, desired),
        None => Change::between(live, desired),
    };
    Ok(GangPlan { pod_group: Some((scheduler, change)), lacking })
}

/// Requested properties of the gang that the cluster lacks: the API server drops fields of disabled features from the
/// PodGroup `live` without an error (`dropDisabledPodGroupFields` in `pkg/registry/scheduling/podgroup`, 1.37).
fn lacking(
    cluster: &Cluster,
    scheduler: Option<GangScheduler>,
    live: Option<&DynamicObject>,
) -> Vec<String> {
    let gang = scheduler
        .is_none()
        .then_some("spec.scheduling.gang (no PodGroups: each pod gets a node by itself)");
    let topology = match scheduler.filter(|scheduler| scheduler.is_native()) {
        None => Some("spec.scheduling.topology (no PodGroups of scheduling.k8s.io)"),
        Some(_) => live.filter(|live| live.data["spec"].get(CONSTRAINTS_FIELD).is_none()).map(
            |_| "spec.scheduling.topology (feature TopologyAwareWorkloadScheduling, which is off)",
        ),
    };
    let topology = topology.filter(|_| cluster.topology.is_some());
    gang.into_iter().chain(topology).map(str::to_owned).collect()
}

/// The change of the PodGroup of an existing Job. In the PodGroup of Kubernetes itself only the number of members may
/// change, from 1.37 on (`PodGroupSpec` in `k8s.io/api/scheduling`, `v1beta1` of 1.37 and `v1alpha2` of 1.36).
fn change_of_live(
    scheduler: GangScheduler,
    live: &DynamicObject,
    mut desired: DynamicObject,
) -> Change<DynamicObject> {
    match scheduler {
        GangScheduler::KubernetesAlpha => return Change::Keep,
        GangScheduler::Kubernetes => {
            if let Some(spec) = desired.data["spec"].as_object_mut() {
                spec.remove(CONSTRAINTS_FIELD);
            }
        }
        GangScheduler::Coscheduling | GangScheduler::Volcano => {}
    }
    Change::between(Some(live), desired)
}
