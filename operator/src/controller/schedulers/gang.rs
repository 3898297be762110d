//! The pods of a Job as a gang: a scheduler gives nodes to enough of them, or to none.
//!
//! Two schedulers are known by what they read: the plugin coscheduling of scheduler-plugins, and Volcano. Each has a
//! PodGroup of its own, and pods say in a way of its own which they belong to. Which PodGroup a Job was made
//! with is noted on it, because the cluster may have another scheduler by the time somebody asks.

use crate::cluster::{Cluster, Identity};
use crate::controller::build::meta_of;
use crate::controller::decide::change::Change;
use crate::controller::error::{Error, NameConflict};
use crate::controller::observe::cached_client::CachedClient;
use crate::crd::Gang;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::ResourceExt as _;

/// Annotation of the Job: the API group of the PodGroup that its pods belong to.
const ANNOTATION: &str = "flux-framework.org/pod-group";

/// Name of Volcano's scheduler, where nobody has given it another.
const VOLCANO_SCHEDULER: &str = "volcano";

/// The PodGroup of scheduler-plugins.
pub(in crate::controller) mod coscheduling {
    use kube::CustomResource;
    use serde::{Deserialize, Serialize};

    /// API group.
    pub(in crate::controller) const GROUP: &str = "scheduling.x-k8s.io";
    /// Label of a pod: name of its PodGroup.
    pub(in crate::controller) const LABEL: &str = "scheduling.x-k8s.io/pod-group";

    /// What the operator decides of it.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[kube(group = "scheduling.x-k8s.io", version = "v1alpha1", kind = "PodGroup")]
    #[kube(namespaced, schema = "disabled", derive = "PartialEq")]
    #[serde(rename_all = "camelCase")]
    pub(in crate::controller) struct PodGroupSpec {
        /// How many pods get nodes together.
        pub(in crate::controller) min_member: i32,
    }
}

/// The PodGroup of Volcano.
pub(in crate::controller) mod volcano {
    use kube::CustomResource;
    use serde::{Deserialize, Serialize};

    /// API group.
    pub(in crate::controller) const GROUP: &str = "scheduling.volcano.sh";
    /// Annotation of a pod: name of its PodGroup.
    pub(in crate::controller) const ANNOTATION: &str = "scheduling.k8s.io/group-name";

    /// What the operator decides of it.
    #[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[kube(group = "scheduling.volcano.sh", version = "v1beta1", kind = "PodGroup")]
    #[kube(namespaced, schema = "disabled", derive = "PartialEq")]
    #[serde(rename_all = "camelCase")]
    pub(in crate::controller) struct PodGroupSpec {
        /// How many pods get nodes together.
        pub(in crate::controller) min_member: i32,
    }
}

/// Whose PodGroup it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::controller) enum Scheduler {
    /// scheduler-plugins.
    Coscheduling,
    /// Volcano.
    Volcano,
}

impl Scheduler {
    const ALL: [Self; 2] = [Self::Coscheduling, Self::Volcano];

    /// API group of its PodGroup.
    const fn group(self) -> &'static str {
        match self {
            Self::Coscheduling => coscheduling::GROUP,
            Self::Volcano => volcano::GROUP,
        }
    }

    /// API version of its PodGroup, as far as it is known here.
    fn api_version(self) -> String {
        let version = match self {
            Self::Coscheduling => "v1alpha1",
            Self::Volcano => "v1beta1",
        };
        format!("{}/{version}", self.group())
    }

    /// Whose PodGroup the pods of `job` belong to, if they are a gang.
    fn noted_on(job: &Job) -> Option<Self> {
        let group = job.annotations().get(ANNOTATION)?;
        Self::ALL.into_iter().find(|scheduler| scheduler.group() == group)
    }
}

/// What there is of gangs, where one is asked for.
#[derive(Debug, Clone, Default)]
pub(in crate::controller) struct Observed {
    /// Schedulers whose PodGroups the API server has; of a Job that was made, its own.
    served: Vec<Scheduler>,
    coscheduling: Option<coscheduling::PodGroup>,
    volcano: Option<volcano::PodGroup>,
}

/// What is done with the PodGroup.
#[derive(Debug, Default)]
pub(in crate::controller) struct Changes {
    /// That of scheduler-plugins.
    pub(in crate::controller) coscheduling: Change<coscheduling::PodGroup>,
    /// That of Volcano.
    pub(in crate::controller) volcano: Change<volcano::PodGroup>,
}

/// Reads what there is. PodGroups of somebody else go into `taken`.
pub(in crate::controller) async fn observe(
    client: &CachedClient<'_>,
    identity: &Identity,
    cluster: &Cluster,
    job: Option<&Job>,
    taken: &mut Vec<NameConflict>,
) -> Result<Observed, Error> {
    if cluster.gang == Gang::None {
        return Ok(Observed::default());
    }
    let served = match job {
        Some(job) => Scheduler::noted_on(job).into_iter().collect(),
        None => served(client).await?,
    };
    let (name, owner) = (identity.name.as_str(), &identity.owner);
    let mut observed = Observed { served, ..Observed::default() };
    for scheduler in &observed.served {
        let found = match scheduler {
            Scheduler::Coscheduling => {
                let found = client.read_owned(name, owner).await?;
                found.map(|found| observed.coscheduling = found)
            }
            Scheduler::Volcano => {
                let found = client.read_owned(name, owner).await?;
                found.map(|found| observed.volcano = found)
            }
        };
        taken.extend(found.err());
    }
    Ok(observed)
}

/// Schedulers whose PodGroups the API server has.
async fn served(client: &CachedClient<'_>) -> Result<Vec<Scheduler>, Error> {
    let client = client.client();
    let failed = |name: &str| {
        let name = name.to_owned();
        |source| Error::Read { kind: "API group".to_owned(), name, source: Box::new(source) }
    };
    let groups = client.list_api_groups().await.map_err(failed("scheduling"))?.groups;
    let mut served = Vec::new();
    for scheduler in Scheduler::ALL {
        let version = scheduler.api_version();
        let has = groups.iter().flat_map(|group| &group.versions);
        if !has.map(|it| &it.group_version).any(|it| *it == version) {
            continue;
        }
        let resources =
            client.list_api_group_resources(&version).await.map_err(failed(&version))?;
        if resources.resources.iter().any(|resource| resource.name == "podgroups") {
            served.push(scheduler);
        }
    }
    Ok(served)
}

/// Makes the pods of `job`, the one that is to be, a gang where `cluster` asks for one, and decides what
/// is done with the PodGroup. `live_job`: the Job that there is keeps what it was made with.
pub(in crate::controller) fn join_pod_group(
    cluster: &Cluster,
    observed: &Observed,
    live_job: Option<&Job>,
    job: &mut Job,
) -> Result<Changes, Error> {
    if cluster.gang == Gang::None {
        return Ok(Changes::default());
    }
    let template = job.spec.get_or_insert_default();
    let scheduler = match live_job {
        Some(live) => Scheduler::noted_on(live),
        None => Some(choose(scheduler_name(&template.template), &observed.served)?),
    };
    // A Job that was made without a gang stays without: the field that has changed is named elsewhere.
    let Some(scheduler) = scheduler else { return Ok(Changes::default()) };
    join(scheduler, cluster.name.as_str(), &mut template.template);
    job.annotations_mut().insert(ANNOTATION.to_owned(), scheduler.group().to_owned());
    Ok(changes(scheduler, cluster, observed))
}

fn scheduler_name(template: &PodTemplateSpec) -> Option<&str> {
    template.spec.as_ref()?.scheduler_name.as_deref()
}

/// Whose PodGroup the pods get that the scheduler of this name gives nodes to, of those that are `served`.
fn choose(name: Option<&str>, served: &[Scheduler]) -> Result<Scheduler, Error> {
    let is_volcano = |scheduler: &&Scheduler| **scheduler == Scheduler::Volcano;
    let found = if name == Some(VOLCANO_SCHEDULER) {
        served.iter().find(is_volcano)
    } else {
        served.first()
    };
    let lacking = || {
        let groups = Scheduler::ALL.map(Scheduler::group);
        let (named, groups) = match name {
            Some(VOLCANO_SCHEDULER) => (" of the scheduler \"volcano\"", volcano::GROUP.to_owned()),
            Some(_) | None => ("", groups.join(" or ")),
        };
        Error::NoPodGroups { lacking: format!("PodGroups{named} ({groups})") }
    };
    found.copied().ok_or_else(lacking)
}

/// Lets the pods of `template` say which PodGroup they belong to.
fn join(scheduler: Scheduler, group: &str, template: &mut PodTemplateSpec) {
    let metadata = template.metadata.get_or_insert_default();
    let group = group.to_owned();
    match scheduler {
        Scheduler::Coscheduling => {
            metadata.labels.get_or_insert_default().insert(coscheduling::LABEL.to_owned(), group);
        }
        Scheduler::Volcano => {
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(volcano::ANNOTATION.to_owned(), group);
            let pod = template.spec.get_or_insert_default();
            pod.scheduler_name.get_or_insert_with(|| VOLCANO_SCHEDULER.to_owned());
        }
    }
}

/// The PodGroup as it is to be. Its members are the brokers without which nothing runs.
fn changes(scheduler: Scheduler, cluster: &Cluster, observed: &Observed) -> Changes {
    let min_member = cluster.min_size.unwrap_or(cluster.size);
    let min_member = i32::try_from(min_member).unwrap_or(i32::MAX);
    let metadata = meta_of(&cluster.identity(), cluster.name.as_str());
    match scheduler {
        Scheduler::Coscheduling => {
            let spec = coscheduling::PodGroupSpec { min_member };
            let desired = coscheduling::PodGroup { metadata, spec };
            let coscheduling = Change::between(observed.coscheduling.as_ref(), desired);
            Changes { coscheduling, ..Changes::default() }
        }
        Scheduler::Volcano => {
            let spec = volcano::PodGroupSpec { min_member };
            let desired = volcano::PodGroup { metadata, spec };
            let volcano = Change::between(observed.volcano.as_ref(), desired);
            Changes { volcano, ..Changes::default() }
        }
    }
}
