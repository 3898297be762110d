//! The PodGroup of a gang: whether the cluster has one, and what is done with it ([`flux_api::objects::gang`]).

use crate::controller::decide::change::Change;
use crate::controller::error::{Error, NameConflict, Verb};
use crate::controller::observe::cached_client::{CachedClient, Objects, or_note};
use flux_api::cluster::{Cluster, Identity};
use flux_api::crd::Gang;
use flux_api::objects::gang::{PLURAL, Scheduler, choose, join};
use k8s_openapi::api::batch::v1::Job;
use kube::api::DynamicObject;
use std::collections::HashSet;

/// Field of Kubernetes' PodGroup that holds the topology (`PodGroupSpec` in `k8s.io/api/scheduling/v1beta1`, 1.37).
const CONSTRAINTS: &str = "schedulingConstraints";

/// Schedulers whose PodGroups the API server has, or of a Job that was made its own, each with the PodGroup there is.
pub(crate) type Observed = Vec<(Scheduler, Option<DynamicObject>)>;

/// What a gang comes to.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    /// What is done with the PodGroup, where the pods have one.
    pub(crate) pod_group: Option<(Scheduler, Change<DynamicObject>)>,
    /// Fields for which the cluster has nothing, each with what it lacks.
    pub(crate) lacking: Vec<String>,
}

/// Reads what there is, where a gang is asked for. PodGroups of somebody else go into `taken`.
pub(crate) async fn observe(
    client: &CachedClient<'_>,
    identity: &Identity,
    cluster: &Cluster,
    job: Option<&Job>,
    taken: &mut Vec<NameConflict>,
) -> Result<Observed, Error> {
    let mut observed = Observed::default();
    if cluster.gang == Gang::None {
        return Ok(observed);
    }
    let served = match job {
        Some(job) => Scheduler::noted_on(job).into_iter().collect(),
        None => served(client, Scheduler::all_of(cluster.gang)).await?,
    };
    for scheduler in served {
        let pod_groups = pod_groups(scheduler, client);
        let found = pod_groups.read_owned(identity.name.as_str(), &identity.owner).await?;
        observed.push((scheduler, or_note(found, taken)));
    }
    Ok(observed)
}

/// The PodGroups of `scheduler`.
pub(crate) fn pod_groups(
    scheduler: Scheduler,
    client: &CachedClient<'_>,
) -> Objects<DynamicObject> {
    client.dynamic(&scheduler.resource())
}

async fn served(client: &CachedClient<'_>, wanted: &[Scheduler]) -> Result<Vec<Scheduler>, Error> {
    let client = &client.context.client;
    let failed = |name: &str| Error::of(Verb::Read, "API group", name);
    let groups = client.list_api_groups().await.map_err(failed("scheduling"))?.groups;
    let versions: HashSet<_> =
        groups.into_iter().flat_map(|group| group.versions).map(|it| it.group_version).collect();
    let mut served = Vec::new();
    for scheduler in wanted {
        let version = scheduler.resource().api_version;
        if versions.contains(&version) {
            let resources = client.list_api_group_resources(&version).await;
            let resources = resources.map_err(failed(&version))?.resources;
            served.extend(resources.iter().any(|it| it.name == PLURAL).then_some(*scheduler));
        }
    }
    Ok(served)
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
    let scheduler = match live_job {
        Some(live) => Scheduler::noted_on(live),
        None => {
            let served: Vec<Scheduler> = observed.iter().map(|(scheduler, _)| *scheduler).collect();
            let template = &job.spec.get_or_insert_default().template;
            choose(cluster.gang, template, &served).map_err(Error::NoPodGroups)?
        }
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
