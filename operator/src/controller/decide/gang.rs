//! What is done with the PodGroup of a gang.

use super::change::Change;
use crate::controller::error::Error;
use crate::controller::observe::gang::Observed;
use flux_api::cluster::Cluster;
use flux_api::crd::Gang;
use flux_api::objects::gang::{Scheduler, choose, join};
use k8s_openapi::api::batch::v1::Job;
use kube::api::DynamicObject;

/// Field of Kubernetes' PodGroup that holds the topology (`PodGroupSpec` in `k8s.io/api/scheduling/v1beta1`, 1.37).
const CONSTRAINTS: &str = "schedulingConstraints";

/// What is decided about a gang.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    /// What is done with the PodGroup, where the pods have one.
    pub(crate) pod_group: Option<(Scheduler, Change<DynamicObject>)>,
    /// Fields for which the cluster has nothing, each with what it lacks.
    pub(crate) lacking: Vec<String>,
}

/// Makes the pods of `job`, the one that is to be, a gang where `cluster` asks for one, and decides what
/// is done with the PodGroup. `live_job`: the Job that there is keeps what it was made with.
pub(crate) fn join_pod_group(
    cluster: &Cluster,
    observed: &Observed,
    live_job: Option<&Job>,
    job: &mut Job,
) -> Result<Joined, Error> {
    if cluster.gang == Gang::None {
        return Ok(Joined::default());
    }
    let scheduler = if let Some(live) = live_job {
        Scheduler::noted_on(live)
    } else {
        let served: Vec<Scheduler> = observed.iter().map(|(scheduler, _)| *scheduler).collect();
        let template = &job.spec.get_or_insert_default().template;
        choose(cluster.gang, template, &served).map_err(Error::NoPodGroups)?
    };
    let live = observed.iter().find(|(served, _)| Some(*served) == scheduler);
    let live = live.and_then(|(_, pod_group)| pod_group.as_ref());
    let lacking = lacking(cluster, scheduler, live);
    // A Job that was made without a gang stays without.
    let Some(scheduler) = scheduler else { return Ok(Joined { pod_group: None, lacking }) };
    let desired = join(scheduler, cluster, job);
    let change = match live.filter(|_| live_job.is_some()) {
        Some(live) => follow(scheduler, live, desired),
        None => Change::between(live, desired),
    };
    Ok(Joined { pod_group: Some((scheduler, change)), lacking })
}

/// What is asked of the gang and not had. `live`: the PodGroup there is. The API server makes it without the fields of
/// features that are off, and says nothing (`dropDisabledPodGroupFields` in `pkg/registry/scheduling/podgroup`, 1.37).
fn lacking(
    cluster: &Cluster,
    scheduler: Option<Scheduler>,
    live: Option<&DynamicObject>,
) -> Vec<String> {
    let gang = scheduler
        .is_none()
        .then_some("spec.scheduling.gang (no PodGroups: each pod gets a node by itself)");
    let topology = match scheduler.filter(|scheduler| scheduler.is_native()) {
        None => Some("spec.scheduling.topology (no PodGroups of scheduling.k8s.io)"),
        Some(_) => live.filter(|live| live.data["spec"].get(CONSTRAINTS).is_none()).map(
            |_| "spec.scheduling.topology (feature TopologyAwareWorkloadScheduling, which is off)",
        ),
    };
    let topology = topology.filter(|_| cluster.topology.is_some());
    gang.into_iter().chain(topology).map(str::to_owned).collect()
}

/// What is done with the PodGroup of a Job that is there. Of Kubernetes' own only the number of members may change,
/// from 1.37 on (`PodGroupSpec` in `k8s.io/api/scheduling`, `v1beta1` of 1.37 and `v1alpha2` of 1.36).
fn follow(
    scheduler: Scheduler,
    live: &DynamicObject,
    mut desired: DynamicObject,
) -> Change<DynamicObject> {
    match scheduler {
        Scheduler::KubernetesAlpha => return Change::Keep,
        Scheduler::Kubernetes => {
            if let Some(spec) = desired.data["spec"].as_object_mut() {
                spec.remove(CONSTRAINTS);
            }
        }
        Scheduler::Coscheduling | Scheduler::Volcano => {}
    }
    Change::between(Some(live), desired)
}
