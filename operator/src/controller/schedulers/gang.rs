//! The pods of a Job as a gang: a scheduler gives nodes to enough of them, or to none.
//!
//! Three schedulers are known by what they read: that of Kubernetes (KEP-4671), the plugin coscheduling of
//! scheduler-plugins, and Volcano. Each has a PodGroup of its own, and pods say in a way of its own which they belong
//! to. Which PodGroup a Job was made with is noted on it, because the cluster may have another scheduler by the time
//! somebody asks.

use crate::cluster::{Cluster, Identity};
use crate::controller::build::meta_of;
use crate::controller::decide::change::Change;
use crate::controller::error::{Error, NameConflict, Verb};
use crate::controller::observe::cached_client::{CachedClient, Objects, or_note};
use crate::crd::Gang;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PodSchedulingGroup, PodSpec, PodTemplateSpec};
use k8s_openapi::api::scheduling::v1beta1::{
    GangSchedulingPolicy, PodGroupSchedulingConstraints, PodGroupSchedulingPolicy, PodGroupSpec,
    TopologyConstraint,
};
use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use std::collections::HashSet;

/// Annotation of the Job: the API group of the PodGroup that its pods belong to, with the version if it is an alpha.
const ANNOTATION: &str = "flux-framework.org/pod-group";

const PLURAL: &str = "podgroups";

const VOLCANO_SCHEDULER: &str = "volcano";

/// Label of a pod: name of the PodGroup of scheduler-plugins that it belongs to.
const COSCHEDULING_LABEL: &str = "scheduling.x-k8s.io/pod-group";

/// Annotation of a pod: name of the PodGroup of Volcano that it belongs to.
const VOLCANO_ANNOTATION: &str = "scheduling.k8s.io/group-name";

/// Field of Kubernetes' PodGroup that holds the topology (`PodGroupSpec` in `k8s.io/api/scheduling/v1beta1`, 1.37).
const CONSTRAINTS: &str = "schedulingConstraints";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheduler {
    Kubernetes,
    /// That of Kubernetes 1.36, and Fluence, which read an API of which all but the status is fixed.
    KubernetesAlpha,
    Coscheduling,
    Volcano,
}

impl Scheduler {
    /// All, in the order of preference.
    pub(crate) const ALL: [Self; 4] =
        [Self::Kubernetes, Self::KubernetesAlpha, Self::Coscheduling, Self::Volcano];

    /// Those that a gang may be for.
    const fn all_of(gang: Gang) -> &'static [Self] {
        match gang {
            Gang::None => &[],
            Gang::Auto => &Self::ALL,
            Gang::Native => &[Self::Kubernetes, Self::KubernetesAlpha],
            Gang::PodGroup => &[Self::Coscheduling, Self::Volcano],
        }
    }

    const fn api(self) -> (&'static str, &'static str) {
        match self {
            Self::Kubernetes => ("scheduling.k8s.io", "v1beta1"),
            Self::KubernetesAlpha => ("scheduling.k8s.io", "v1alpha2"),
            Self::Coscheduling => ("scheduling.x-k8s.io", "v1alpha1"),
            Self::Volcano => ("scheduling.volcano.sh", "v1beta1"),
        }
    }

    const fn group(self) -> &'static str {
        self.api().0
    }

    /// Stands for it in the annotation. No version of Kubernetes serves what another's alpha was.
    const fn note(self) -> &'static str {
        match self {
            Self::KubernetesAlpha => "scheduling.k8s.io/v1alpha2",
            Self::Kubernetes | Self::Coscheduling | Self::Volcano => self.group(),
        }
    }

    const fn is_native(self) -> bool {
        matches!(self, Self::Kubernetes | Self::KubernetesAlpha)
    }

    fn resource(self) -> ApiResource {
        let (group, version) = self.api();
        let kind = GroupVersionKind::gvk(group, version, "PodGroup");
        ApiResource::from_gvk_with_plural(&kind, PLURAL)
    }

    pub(crate) fn pod_groups(self, client: &CachedClient<'_>) -> Objects<DynamicObject> {
        client.dynamic(&self.resource())
    }

    fn noted_on(job: &Job) -> Option<Self> {
        let note = job.annotations().get(ANNOTATION)?;
        Self::ALL.into_iter().find(|scheduler| scheduler.note() == note)
    }
}

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
        let pod_groups = scheduler.pod_groups(client);
        let found = pod_groups.read_owned(identity.name.as_str(), &identity.owner).await?;
        observed.push((scheduler, or_note(found, taken)));
    }
    Ok(observed)
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
    let template = &mut job.spec.get_or_insert_default().template;
    let name = template.spec.as_ref().and_then(|pod| pod.scheduler_name.as_deref());
    let scheduler = match live_job {
        Some(live) => Scheduler::noted_on(live),
        None => choose(cluster.gang, name, observed)?,
    };
    let live = observed.iter().find(|(served, _)| Some(*served) == scheduler);
    let live = live.and_then(|(_, pod_group)| pod_group.as_ref());
    let lacking = lacking(cluster, scheduler, live);
    // A Job that was made without a gang stays without.
    let Some(scheduler) = scheduler else { return Ok(Joined { pod_group: None, lacking }) };
    join(scheduler, cluster.name.as_str(), template);
    let desired = pod_group(scheduler, cluster, template.spec.as_ref());
    job.annotations_mut().insert(ANNOTATION.to_owned(), scheduler.note().to_owned());
    let change = match live.filter(|_| live_job.is_some()) {
        Some(live) => follow(scheduler, live, desired),
        None => Change::between(live, desired),
    };
    Ok(Joined { pod_group: Some((scheduler, change)), lacking })
}

/// Whose PodGroup the pods get that the scheduler of this name gives nodes to, of those that are served. Only what is
/// to be found by itself may be absent.
fn choose(gang: Gang, name: Option<&str>, served: &Observed) -> Result<Option<Scheduler>, Error> {
    let mut wanted = Scheduler::all_of(gang).to_vec();
    if name == Some(VOLCANO_SCHEDULER) && gang != Gang::Native {
        wanted.retain(|scheduler| *scheduler == Scheduler::Volcano);
    }
    let mut served = served.iter().map(|(scheduler, _)| *scheduler);
    let found = served.find(|scheduler| wanted.contains(scheduler));
    if found.is_some() || gang == Gang::Auto {
        return Ok(found);
    }
    Err(Error::NoPodGroups(match wanted[..] {
        [Scheduler::Volcano] => format!(
            "PodGroup, and the API server has no PodGroups of the scheduler \"{VOLCANO_SCHEDULER}\" ({}): \
             install scheduler-plugins or Volcano",
            Scheduler::Volcano.group()
        ),
        _ if gang == Gang::Native => format!(
            "Native, and the API server has no PodGroups ({}): switch on the feature gate GenericWorkload of \
             Kubernetes 1.37, and serve the API by --runtime-config={}=true",
            Scheduler::Kubernetes.group(),
            Scheduler::Kubernetes.resource().api_version
        ),
        _ => format!(
            "PodGroup, and the API server has no PodGroups ({} or {}): install scheduler-plugins or Volcano",
            Scheduler::Coscheduling.group(),
            Scheduler::Volcano.group()
        ),
    }))
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

fn join(scheduler: Scheduler, group: &str, template: &mut PodTemplateSpec) {
    let metadata = template.metadata.get_or_insert_default();
    let group = group.to_owned();
    match scheduler {
        Scheduler::Kubernetes | Scheduler::KubernetesAlpha => {
            let pod = template.spec.get_or_insert_default();
            pod.scheduling_group = Some(PodSchedulingGroup { pod_group_name: Some(group) });
        }
        Scheduler::Coscheduling => {
            metadata.labels.get_or_insert_default().insert(COSCHEDULING_LABEL.to_owned(), group);
        }
        Scheduler::Volcano => {
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(VOLCANO_ANNOTATION.to_owned(), group);
            let pod = template.spec.get_or_insert_default();
            pod.scheduler_name.get_or_insert_with(|| VOLCANO_SCHEDULER.to_owned());
        }
    }
}

/// The PodGroup as it is to be. Its members are the brokers without which nothing runs.
fn pod_group(scheduler: Scheduler, cluster: &Cluster, pod: Option<&PodSpec>) -> DynamicObject {
    let members = cluster.min_size.unwrap_or(cluster.size);
    let spec = match scheduler {
        Scheduler::Kubernetes | Scheduler::KubernetesAlpha => native(members, cluster, pod),
        Scheduler::Coscheduling | Scheduler::Volcano => json!({ "minMember": members }),
    };
    DynamicObject {
        metadata: meta_of(&cluster.identity(), cluster.name.as_str()),
        ..DynamicObject::new("", &scheduler.resource()).data(json!({ "spec": spec }))
    }
}

/// The specification of Kubernetes' PodGroup, the same in `v1beta1` and `v1alpha2`. Where its priority is not that of
/// its pods none is scheduled (`validatePodGroup` in `pkg/scheduler/schedule_one_podgroup.go`, 1.37).
fn native(members: u32, cluster: &Cluster, pod: Option<&PodSpec>) -> Value {
    let gang = GangSchedulingPolicy { min_count: i32::try_from(members).unwrap_or(i32::MAX) };
    let topology = cluster.topology.clone().map(|key| vec![TopologyConstraint { key }]);
    json!(PodGroupSpec {
        scheduling_policy: PodGroupSchedulingPolicy { gang: Some(gang), basic: None },
        scheduling_constraints: topology
            .map(|topology| PodGroupSchedulingConstraints { topology: Some(topology) }),
        priority_class_name: pod.and_then(|pod| pod.priority_class_name.clone()),
        ..PodGroupSpec::default()
    })
}
