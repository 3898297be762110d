//! The validated MiniCluster: what the rest of the operator works with.
//!
//! [`validate::validate()`] is the only way to make a [`Cluster`]. Behind it no `Option` means "perhaps the
//! user forgot" and no empty string means "unset": every default is resolved, and every
//! rule of ours is checked. What is passed on whole, Kubernetes checks in the objects that are made.

mod fixed_fields;
pub mod validate;

pub(crate) use fixed_fields::{FixedFields, RUN_KEY};

use crate::crd::{Autoscale, Gang, Install, Medium, MiniCluster};
use flux_contract::{
    Bootstrap, Broker, ClusterName, FluxUser, Hooks, Logging, NameError, SidecarConfig, Workload,
};
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource as _;
use std::collections::BTreeMap;

/// Namespace of an object that was read from a file without one.
const DEFAULT_NAMESPACE: &str = "default";

/// A MiniCluster with every default resolved and every rule checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    pub(crate) name: ClusterName,
    pub(crate) namespace: String,
    pub(crate) owner: OwnerReference,
    /// Pods asked for.
    pub size: u32,
    /// Hosts registered with Flux: the size may be scaled up to it.
    pub(crate) max_size: u32,
    /// Between which sizes the queue decides, if it does.
    pub(crate) autoscale: Option<Autoscale>,
    /// Brokers that must be there before the command runs; absent: `size` when fewer than all
    /// registered hosts, else all.
    pub(crate) min_size: Option<u32>,
    /// Labels of the Job object: those of `spec.jobLabels`, and those of the MiniCluster that a queue reads.
    pub(crate) job_labels: BTreeMap<String, String>,
    /// Annotations of the Job object: those of the MiniCluster that a queue reads.
    pub(crate) job_annotations: BTreeMap<String, String>,
    pub(crate) deadline_seconds: i64,
    /// The agent of the first pod ends the run at the deadline, from its own start on, and the pods stay.
    /// Else the Job does, from its start on, and deletes them.
    pub(crate) deadline_by_agent: bool,
    /// Within how many seconds from the start of the Job the quorum must be reached, if that is asked for.
    pub(crate) start_deadline_seconds: Option<u64>,
    pub(crate) suspend: bool,
    /// The value of the annotation that starts a MiniCluster again which rests.
    pub(crate) resume: String,
    /// 0 unless given, so that a failed command is not run again.
    pub(crate) backoff_limit: u32,
    pub(crate) headless_name: String,
    /// Only the lead is reachable by a Service.
    pub(crate) minimal_service: bool,
    /// Flux itself.
    pub flux: Flux,
    pub(crate) logging: Logging,
    /// File the instance's state is restored from and dumped to.
    pub(crate) archive: Option<String>,
    pub(crate) pod: Pod,
    pub(crate) gang: Gang,
    /// Label of nodes, of which all that the gang gets have the same value.
    pub(crate) topology: Option<String>,
    pub(crate) runner: Runner,
    pub(crate) sidecars: Vec<Sidecar>,
    pub(crate) services_pod: Option<ServicesPod>,
    /// Paths of fields that were given and that this version does not act on yet.
    pub not_acted_on: Vec<String>,
    /// What an instance that was started with this specification keeps of it.
    pub(crate) fixed_fields: FixedFields,
}

impl Cluster {
    pub(crate) fn identity(&self) -> Identity {
        Identity {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            owner: self.owner.clone(),
        }
    }

    /// The headless Service is one of several MiniClusters, or may become one.
    pub(crate) fn shares_headless_service(&self) -> bool {
        self.headless_name != self.name.as_str()
    }

    /// Pods are never restarted in place. Only for those the API server takes a failure policy.
    pub(crate) fn never_restarts(&self) -> bool {
        self.pod.spec.restart_policy.as_deref() == Some("Never")
    }

    /// A command is never run a second time, and pods that are lost are made again all the same.
    pub(crate) fn runs_once(&self) -> bool {
        self.backoff_limit == 0 && self.never_restarts()
    }

    /// True where programs or people use the instance while it is up.
    pub(crate) const fn is_used_while_up(&self) -> bool {
        self.runner.workload.is_interactive() || self.flux.rest_port.is_some()
    }

    /// Leaves so many of the pods that were asked for. The command asks for no more nodes, and a quorum of more
    /// brokers than there are pods is never reached.
    pub(crate) fn cut_to(&mut self, size: u32) {
        self.size = size;
        self.min_size = self.min_size.map(|least| least.min(size));
        let flags = match &mut self.runner.workload {
            Workload::Submit { submission }
            | Workload::Interactive { submission: Some(submission) } => &mut submission.flags,
            Workload::Batch { flags, .. } => flags,
            Workload::Interactive { submission: None }
            | Workload::Launcher { .. }
            | Workload::Diagnostics {} => return,
        };
        // Where the size is one of the flags, it is the first; others are the user's.
        if let Some([option, nodes]) = flags.first_chunk_mut()
            && option == "-N"
        {
            *nodes = size.to_string();
        }
    }

    /// The Secret with the CURVE certificate: the user's own, or the one that the operator creates
    /// for this run.
    pub fn curve_secret(&self) -> String {
        match &self.flux.curve {
            Curve::Secret(name) => name.clone(),
            Curve::Generate | Curve::Given(_) => {
                self.name.curve_secret(&self.fixed_fields.run(&self.owner.uid))
            }
        }
    }
}

/// Which MiniCluster it is: all that is needed to find what was made for it, whatever its specification says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Identity {
    pub(crate) name: ClusterName,
    pub(crate) namespace: String,
    /// Makes the MiniCluster the controller of what is made for it.
    pub(crate) owner: OwnerReference,
}

impl Identity {
    /// The identity of `object`; under another name than these nothing is ever made.
    pub(crate) fn of(object: &MiniCluster) -> Result<Self, NameError> {
        let metadata = &object.metadata;
        let name = metadata.name.clone().unwrap_or_default();
        Ok(Self {
            name: ClusterName::new(&name)?,
            namespace: metadata.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
            owner: OwnerReference {
                api_version: MiniCluster::api_version(&()).into_owned(),
                kind: MiniCluster::kind(&()).into_owned(),
                name,
                uid: metadata.uid.clone().unwrap_or_default(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            },
        })
    }
}

/// Flux itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Flux {
    pub(crate) view: View,
    pub(crate) install: Install,
    /// A worker leaves after its broker's first end.
    pub(crate) complete_workers: bool,
    /// Options and configuration of every broker; the quorum is decided when they are written.
    pub(crate) broker: Broker,
    /// Where the CURVE certificate comes from.
    pub curve: Curve,
    /// Hosts in rank order, and the lead if it is elsewhere.
    pub(crate) bootstrap: Bootstrap,
    /// Port at which the lead serves the API of the instance, if it does.
    pub(crate) rest_port: Option<u16>,
    /// Secret with a munge key, mounted for the agent to install.
    pub(crate) munge_secret: Option<String>,
    /// Lines for `flux-view.sh`.
    pub(crate) environment: BTreeMap<String, String>,
}

/// Where the CURVE certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Curve {
    /// The operator makes one, once.
    Generate,
    /// The text of `flux.curveCert`, checked.
    Given(flux_protocol::Redacted<String>),
    /// A Secret of the user with the key `curve.cert`.
    Secret(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct View {
    /// False: the runner's image brings its own Flux, nothing is copied.
    pub(crate) enabled: bool,
    /// The init container that copies the view, without what the operator adds. The shared volume has its name.
    pub(crate) container: Container,
    pub(crate) mount_path: String,
    pub(crate) medium: Medium,
    /// Replaces the view's site-packages directory.
    pub(crate) python_path: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pod {
    /// Labels of the user; the operator's own are added and win.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) grace_seconds: u64,
    /// Strategic-merge patch of the `PodSpec`, applied last.
    pub(crate) overlay: Option<serde_json::Value>,
    /// What the specification says of the pods. The containers, and the operator's own volumes, are not in it.
    pub(crate) spec: PodSpec,
}

pub(crate) const AGENT_CONTAINER: &str = "flux-agent";

/// Label of a Job with the queue that it waits in (Kueue, `LocalQueue`).
pub const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

/// Annotation of a Job whose number of pods Kueue lets change while it runs (KEP-77, `ElasticJobsViaWorkloadSlices`).
pub(crate) const ELASTIC_ANNOTATION: &str = "kueue.x-k8s.io/elastic-job";

/// Annotation of a Job: with how many pods Kueue may start it where there is no quota for all (KEP-420,
/// `PartialAdmission`).
pub(crate) const LEAST_PODS_ANNOTATION: &str = "kueue.x-k8s.io/job-min-parallelism";

/// Annotation of a Job: where Kueue reduces its `parallelism`, it does its `completions`, so that no index is left.
pub(crate) const EQUAL_ANNOTATION: &str = "kueue.x-k8s.io/job-completions-equal-parallelism";

/// Annotation of a Job that Kueue may start with fewer pods: how many were asked for.
pub(crate) const QUEUED_SIZE_ANNOTATION: &str = "flux-framework.org/queued-size";

/// How annotations begin by which Kueue chooses nodes near each other (KEP-2724). It reads them in the pod template.
pub(crate) const TOPOLOGY_ANNOTATIONS: &str = "kueue.x-k8s.io/podset-";

/// Tells a container's scripts how many cores the user means it to use (`cores`).
pub(crate) const CORES_VARIABLE: &str = "FLUX_CORES";

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Runner {
    /// Its container, without what the operator adds; the name is the MiniCluster's.
    pub(crate) container: Container,
    pub(crate) user: FluxUser,
    pub(crate) hooks: Hooks,
    /// What the lead runs, with its node, task and option flags already decided.
    pub(crate) workload: Workload,
}

/// The pod of `spec.services`: what the workload needs and Flux does not run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServicesPod {
    pub(crate) spec: PodSpec,
    /// What a pod that was made from this specification keeps of it.
    pub(crate) fixed_fields: FixedFields,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sidecar {
    /// Without what the operator adds.
    pub(crate) container: Container,
    /// Absent: the image's own entrypoint runs (`noWrapEntrypoint`).
    pub(crate) wrapped: Option<SidecarConfig>,
}
