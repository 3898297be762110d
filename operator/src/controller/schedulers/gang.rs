//! The pods of a Job as a gang: a scheduler gives nodes to enough of them, or to none.
//!
//! Two schedulers are known by what they read: the plugin coscheduling of scheduler-plugins, and Volcano. Each has a
//! PodGroup of its own, and pods say in a way of its own which they belong to. Which PodGroup a Job was made
//! with is noted on it, because the cluster may have another scheduler by the time somebody asks.

use crate::cluster::{Cluster, Identity};
use crate::controller::build::meta_of;
use crate::controller::decide::change::Change;
use crate::controller::error::{Error, NameConflict, Verb};
use crate::controller::observe::cached_client::{CachedClient, Objects, or_note};
use crate::crd::Gang;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::json;
use std::collections::HashSet;

/// Annotation of the Job: the API group of the PodGroup that its pods belong to.
const ANNOTATION: &str = "flux-framework.org/pod-group";

const PLURAL: &str = "podgroups";

const VOLCANO_SCHEDULER: &str = "volcano";

/// Label of a pod: name of the PodGroup of scheduler-plugins that it belongs to.
const COSCHEDULING_LABEL: &str = "scheduling.x-k8s.io/pod-group";

/// Annotation of a pod: name of the PodGroup of Volcano that it belongs to.
const VOLCANO_ANNOTATION: &str = "scheduling.k8s.io/group-name";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheduler {
    Coscheduling,
    Volcano,
}

impl Scheduler {
    const ALL: [Self; 2] = [Self::Coscheduling, Self::Volcano];

    const fn api(self) -> (&'static str, &'static str) {
        match self {
            Self::Coscheduling => ("scheduling.x-k8s.io", "v1alpha1"),
            Self::Volcano => ("scheduling.volcano.sh", "v1beta1"),
        }
    }

    const fn group(self) -> &'static str {
        self.api().0
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
        let group = job.annotations().get(ANNOTATION)?;
        Self::ALL.into_iter().find(|scheduler| scheduler.group() == group)
    }
}

/// Schedulers whose PodGroups the API server has, or of a Job that was made its own, each with the PodGroup there is.
pub(crate) type Observed = Vec<(Scheduler, Option<DynamicObject>)>;

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
        None => served(client).await?,
    };
    for scheduler in served {
        let pod_groups = scheduler.pod_groups(client);
        let found = pod_groups.read_owned(identity.name.as_str(), &identity.owner).await?;
        observed.push((scheduler, or_note(found, taken)));
    }
    Ok(observed)
}

async fn served(client: &CachedClient<'_>) -> Result<Vec<Scheduler>, Error> {
    let client = &client.context.client;
    let failed = |name: &str| Error::of(Verb::Read, "API group", name);
    let groups = client.list_api_groups().await.map_err(failed("scheduling"))?.groups;
    let versions: HashSet<_> =
        groups.into_iter().flat_map(|group| group.versions).map(|it| it.group_version).collect();
    let mut served = Vec::new();
    for scheduler in Scheduler::ALL {
        let version = scheduler.resource().api_version;
        if versions.contains(&version) {
            let resources = client.list_api_group_resources(&version).await;
            let resources = resources.map_err(failed(&version))?.resources;
            served.extend(resources.iter().any(|it| it.name == PLURAL).then_some(scheduler));
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
) -> Result<Option<(Scheduler, Change<DynamicObject>)>, Error> {
    if cluster.gang == Gang::None {
        return Ok(None);
    }
    let template = job.spec.get_or_insert_default();
    let name = template.template.spec.as_ref().and_then(|pod| pod.scheduler_name.as_deref());
    let scheduler = match live_job {
        Some(live) => Scheduler::noted_on(live),
        None => Some(choose(name, observed)?),
    };
    // A Job that was made without a gang stays without: the field that has changed is named elsewhere.
    let Some(scheduler) = scheduler else { return Ok(None) };
    join(scheduler, cluster.name.as_str(), &mut template.template);
    job.annotations_mut().insert(ANNOTATION.to_owned(), scheduler.group().to_owned());
    let live = observed.iter().find(|(served, _)| *served == scheduler);
    let live = live.and_then(|(_, pod_group)| pod_group.as_ref());
    Ok(Some((scheduler, Change::between(live, pod_group(scheduler, cluster)))))
}

/// Whose PodGroup the pods get that the scheduler of this name gives nodes to, of those that are served.
fn choose(name: Option<&str>, served: &Observed) -> Result<Scheduler, Error> {
    let asked = name.filter(|name| *name == VOLCANO_SCHEDULER).map(|_| Scheduler::Volcano);
    let mut served = served.iter().map(|(scheduler, _)| *scheduler);
    served.find(|scheduler| asked.is_none_or(|asked| asked == *scheduler)).ok_or_else(|| {
        let lacking = match asked {
            Some(asked) => format!(" of the scheduler \"{VOLCANO_SCHEDULER}\" ({})", asked.group()),
            None => format!(" ({})", Scheduler::ALL.map(Scheduler::group).join(" or ")),
        };
        Error::NoPodGroups(format!("PodGroups{lacking}"))
    })
}

fn join(scheduler: Scheduler, group: &str, template: &mut PodTemplateSpec) {
    let metadata = template.metadata.get_or_insert_default();
    let group = group.to_owned();
    match scheduler {
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
fn pod_group(scheduler: Scheduler, cluster: &Cluster) -> DynamicObject {
    let spec = json!({ "minMember": cluster.min_size.unwrap_or(cluster.size) });
    DynamicObject {
        metadata: meta_of(&cluster.identity(), cluster.name.as_str()),
        ..DynamicObject::new("", &scheduler.resource()).data(json!({ "spec": spec }))
    }
}
