//! Makes the pods of a Job a gang: a scheduler gives nodes to enough of them, or to none.
//!
//! Three schedulers are supported: that of Kubernetes (KEP-4671), the plugin coscheduling of scheduler-plugins, and
//! Volcano. Each has its own kind of PodGroup and its own mark on the member pods. The Job has a note of the
//! scheduler that it was created for, because the cluster may get another one later.

use super::meta::meta_of;
use crate::cluster::Cluster;
use crate::crd::Gang;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PodSchedulingGroup, PodSpec, PodTemplateSpec};
use k8s_openapi::api::scheduling::v1beta1::{
    GangSchedulingPolicy, PodGroupSchedulingConstraints, PodGroupSchedulingPolicy, PodGroupSpec,
    TopologyConstraint,
};
use kube::ResourceExt as _;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

/// Annotation of the Job: the API group of its PodGroup, with the version if it is an alpha.
const POD_GROUP_ANNOTATION: &str = "flux-framework.org/pod-group";

/// Plural name of all kinds of PodGroup.
pub const PLURAL: &str = "podgroups";

const VOLCANO_SCHEDULER: &str = "volcano";

/// Label of a pod: name of its PodGroup of scheduler-plugins.
const COSCHEDULING_LABEL: &str = "scheduling.x-k8s.io/pod-group";

/// Annotation of a pod: name of its PodGroup of Volcano.
const VOLCANO_ANNOTATION: &str = "scheduling.k8s.io/group-name";

/// A scheduler that places the pods of a gang together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GangScheduler {
    /// The scheduler of Kubernetes 1.37.
    Kubernetes,
    /// The scheduler of Kubernetes 1.36, and Fluence: only the status of their PodGroups can change.
    KubernetesAlpha,
    /// The plugin coscheduling of scheduler-plugins.
    Coscheduling,
    /// Volcano.
    Volcano,
}

impl GangScheduler {
    /// All schedulers in the order of preference.
    pub const ALL: [Self; 4] =
        [Self::Kubernetes, Self::KubernetesAlpha, Self::Coscheduling, Self::Volcano];

    /// The schedulers that may place a `gang`.
    pub const fn all_of(gang: Gang) -> &'static [Self] {
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

    /// The value of the annotation. It has the version of an alpha, which no other release of Kubernetes serves.
    const fn note(self) -> &'static str {
        match self {
            Self::KubernetesAlpha => "scheduling.k8s.io/v1alpha2",
            Self::Kubernetes | Self::Coscheduling | Self::Volcano => self.group(),
        }
    }

    /// True for the scheduler of Kubernetes.
    pub const fn is_native(self) -> bool {
        matches!(self, Self::Kubernetes | Self::KubernetesAlpha)
    }

    /// The kind of its PodGroups.
    pub fn resource(self) -> ApiResource {
        let (group, version) = self.api();
        let kind = GroupVersionKind::gvk(group, version, "PodGroup");
        ApiResource::from_gvk_with_plural(&kind, PLURAL)
    }

    /// The scheduler that is noted on `job`.
    pub fn noted_on(job: &Job) -> Option<Self> {
        let note = job.annotations().get(POD_GROUP_ANNOTATION)?;
        Self::ALL.into_iter().find(|scheduler| scheduler.note() == note)
    }
}

/// The scheduler for a new Job with this pod template, of those whose PodGroups the API server serves. Only
/// [`Gang::Auto`] can go without one; else the error has the requested gang, what the cluster lacks, and how to get it.
pub fn choose(
    gang: Gang,
    template: &PodTemplateSpec,
    served: &[GangScheduler],
) -> Result<Option<GangScheduler>, String> {
    let name = template.spec.as_ref().and_then(|pod| pod.scheduler_name.as_deref());
    let mut wanted = GangScheduler::all_of(gang).to_vec();
    if name == Some(VOLCANO_SCHEDULER) && gang != Gang::Native {
        wanted.retain(|scheduler| *scheduler == GangScheduler::Volcano);
    }
    let found = served.iter().copied().find(|scheduler| wanted.contains(scheduler));
    if found.is_some() || gang == Gang::Auto {
        return Ok(found);
    }
    Err(match wanted[..] {
        [GangScheduler::Volcano] => format!(
            "PodGroup, and the API server has no PodGroups of the scheduler \"{VOLCANO_SCHEDULER}\" ({}): \
             install scheduler-plugins or Volcano",
            GangScheduler::Volcano.group()
        ),
        _ if gang == Gang::Native => format!(
            "Native, and the API server has no PodGroups ({}): switch on the feature gate GenericWorkload of \
             Kubernetes 1.37, and serve the API by --runtime-config={}=true",
            GangScheduler::Kubernetes.group(),
            GangScheduler::Kubernetes.resource().api_version
        ),
        _ => format!(
            "PodGroup, and the API server has no PodGroups ({} or {}): install scheduler-plugins or Volcano",
            GangScheduler::Coscheduling.group(),
            GangScheduler::Volcano.group()
        ),
    })
}

/// Makes the pods of `job` members of a PodGroup of `scheduler`, notes the scheduler on the Job, and returns the
/// PodGroup. Its least number of members is the quorum.
pub fn join(scheduler: GangScheduler, cluster: &Cluster, job: &mut Job) -> DynamicObject {
    let template = &mut job.spec.get_or_insert_default().template;
    mark(scheduler, cluster.name.as_str(), template);
    let pod_group = pod_group(scheduler, cluster, template.spec.as_ref());
    job.annotations_mut().insert(POD_GROUP_ANNOTATION.to_owned(), scheduler.note().to_owned());
    pod_group
}

fn mark(scheduler: GangScheduler, group: &str, template: &mut PodTemplateSpec) {
    let metadata = template.metadata.get_or_insert_default();
    let group = group.to_owned();
    match scheduler {
        GangScheduler::Kubernetes | GangScheduler::KubernetesAlpha => {
            let pod = template.spec.get_or_insert_default();
            pod.scheduling_group = Some(PodSchedulingGroup { pod_group_name: Some(group) });
        }
        GangScheduler::Coscheduling => {
            metadata.labels.get_or_insert_default().insert(COSCHEDULING_LABEL.to_owned(), group);
        }
        GangScheduler::Volcano => {
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert(VOLCANO_ANNOTATION.to_owned(), group);
            let pod = template.spec.get_or_insert_default();
            pod.scheduler_name.get_or_insert_with(|| VOLCANO_SCHEDULER.to_owned());
        }
    }
}

fn pod_group(scheduler: GangScheduler, cluster: &Cluster, pod: Option<&PodSpec>) -> DynamicObject {
    let members = cluster.min_size.unwrap_or(cluster.size);
    let spec = match scheduler {
        GangScheduler::Kubernetes | GangScheduler::KubernetesAlpha => native(members, cluster, pod),
        GangScheduler::Coscheduling | GangScheduler::Volcano => json!({ "minMember": members }),
    };
    DynamicObject {
        metadata: meta_of(&cluster.identity(), cluster.name.as_str()),
        ..DynamicObject::new("", &scheduler.resource()).data(json!({ "spec": spec }))
    }
}

/// The specification of Kubernetes' PodGroup, which is equal in `v1beta1` and `v1alpha2`. Its priority must be that
/// of the pods, or none is scheduled (`validatePodGroup` in `pkg/scheduler/schedule_one_podgroup.go`, 1.37).
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
