//! The validated MiniCluster: what the rest of the operator works with.
//!
//! [`validate::validate()`] is the only way to make a [`Cluster`]. Behind it no `Option` means "perhaps the
//! user forgot" and no empty string means "unset": every default is resolved, and every
//! rule of ours is checked. What is passed on whole, Kubernetes checks in the objects that are made.

mod fixed_fields;
pub mod validate;

pub use fixed_fields::{FixedFields, RUN_KEY};

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
    /// Name of the MiniCluster.
    pub name: ClusterName,
    /// Namespace of the MiniCluster and of all that is made for it.
    pub namespace: String,
    /// Makes the MiniCluster the controller of what is made for it.
    pub owner: OwnerReference,
    /// Pods asked for.
    pub size: u32,
    /// Hosts registered with Flux: the size may be scaled up to it.
    pub max_size: u32,
    /// Between which sizes the queue decides, if it does.
    pub autoscale: Option<Autoscale>,
    /// Brokers that must be there before the command runs; absent: `size` when fewer than all
    /// registered hosts, else all.
    pub min_size: Option<u32>,
    /// Labels of the Job object: those of `spec.jobLabels`, and those of the MiniCluster that a queue reads.
    pub job_labels: BTreeMap<String, String>,
    /// Annotations of the Job object: those of the MiniCluster that a queue reads.
    pub job_annotations: BTreeMap<String, String>,
    /// How long a run may take.
    pub deadline_seconds: i64,
    /// The agent of the first pod ends the run at the deadline, from its own start on, and the pods stay.
    /// Else the Job does, from its start on, and deletes them.
    pub deadline_by_agent: bool,
    /// Within how many seconds from the start of the Job the quorum must be reached, if that is asked for.
    pub start_deadline_seconds: Option<u64>,
    /// True where the specification suspends the MiniCluster.
    pub suspend: bool,
    /// The value of the annotation that starts a MiniCluster again which rests.
    pub resume: String,
    /// 0 unless given, so that a failed command is not run again.
    pub backoff_limit: u32,
    /// Name of the headless Service, and subdomain of the pods.
    pub headless_name: String,
    /// Only the lead is reachable by a Service.
    pub minimal_service: bool,
    /// Flux itself.
    pub flux: Flux,
    /// What the agents print.
    pub logging: Logging,
    /// File the instance's state is restored from and dumped to.
    pub archive: Option<String>,
    /// What is common to all pods.
    pub pod: Pod,
    /// The kind of PodGroup that places the pods together.
    pub gang: Gang,
    /// Label of nodes, of which all that the gang gets have the same value.
    pub topology: Option<String>,
    /// The container with the broker.
    pub runner: Runner,
    /// The containers beside it.
    pub sidecars: Vec<Sidecar>,
    /// The pod of `spec.services`.
    pub services_pod: Option<ServicesPod>,
    /// Paths of fields that were given and that this version does not act on yet.
    pub not_acted_on: Vec<String>,
    /// What an instance that was started with this specification keeps of it.
    pub fixed_fields: FixedFields,
}

impl Cluster {
    /// Returns what identifies the MiniCluster, without its specification.
    pub fn identity(&self) -> Identity {
        Identity {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            owner: self.owner.clone(),
        }
    }

    /// The headless Service is one of several MiniClusters, or may become one.
    pub fn shares_headless_service(&self) -> bool {
        self.headless_name != self.name.as_str()
    }

    /// Pods are never restarted in place. Only for those the API server takes a failure policy.
    pub fn never_restarts(&self) -> bool {
        self.pod.spec.restart_policy.as_deref() == Some("Never")
    }

    /// A command is never run a second time, and pods that are lost are made again all the same.
    pub fn runs_once(&self) -> bool {
        self.backoff_limit == 0 && self.never_restarts()
    }

    /// True where programs or people use the instance while it is up.
    pub const fn is_used_while_up(&self) -> bool {
        self.runner.workload.is_interactive() || self.flux.rest_port.is_some()
    }

    /// Leaves so many of the pods that were asked for. The command asks for no more nodes, and a quorum of more
    /// brokers than there are pods is never reached.
    pub fn cut_to(&mut self, size: u32) {
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
pub struct Identity {
    /// Name of the MiniCluster.
    pub name: ClusterName,
    /// Its namespace.
    pub namespace: String,
    /// Makes the MiniCluster the controller of what is made for it.
    pub owner: OwnerReference,
}

impl Identity {
    /// The identity of `object`; under another name than these nothing is ever made.
    pub fn of(object: &MiniCluster) -> Result<Self, NameError> {
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
    /// Where Flux comes from.
    pub view: View,
    /// How agent and view come into the pods.
    pub install: Install,
    /// A worker leaves after its broker's first end.
    pub complete_workers: bool,
    /// Options and configuration of every broker; the quorum is decided when they are written.
    pub broker: Broker,
    /// Where the CURVE certificate comes from.
    pub curve: Curve,
    /// Hosts in rank order, and the lead if it is elsewhere.
    pub bootstrap: Bootstrap,
    /// Port at which the lead serves the API of the instance, if it does.
    pub rest_port: Option<u16>,
    /// Secret with a munge key, mounted for the agent to install.
    pub munge_secret: Option<String>,
    /// Lines for `flux-view.sh`.
    pub environment: BTreeMap<String, String>,
}

/// Where the CURVE certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Curve {
    /// The operator makes one, once.
    Generate,
    /// The text of `flux.curveCert`, checked.
    Given(flux_contract::Redacted<String>),
    /// A Secret of the user with the key `curve.cert`.
    Secret(String),
}

/// The view: the files of a Flux installation.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// False: the runner's image brings its own Flux, nothing is copied.
    pub enabled: bool,
    /// The init container that copies the view, without what the operator adds. The shared volume has its name.
    pub container: Container,
    /// Where the shared volume is mounted.
    pub mount_path: String,
    /// Where the shared volume lies.
    pub medium: Medium,
    /// Replaces the view's site-packages directory.
    pub python_path: Option<String>,
}

/// What is common to all pods of the Job.
#[derive(Debug, Clone, PartialEq)]
pub struct Pod {
    /// Labels of the user; the operator's own are added and win.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the user.
    pub annotations: BTreeMap<String, String>,
    /// Seconds between SIGTERM and SIGKILL when a pod is deleted (`terminationGracePeriodSeconds`).
    pub grace_seconds: u64,
    /// Strategic-merge patch of the `PodSpec`, applied last.
    pub overlay: Option<serde_json::Value>,
    /// What the specification says of the pods. The containers, and the operator's own volumes, are not in it.
    pub spec: PodSpec,
}

/// Name of the init container that copies the agent, and of the volume that has it.
pub const AGENT_CONTAINER: &str = "flux-agent";

/// Label of a Job with the queue that it waits in (Kueue, `LocalQueue`).
pub const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

/// Annotation of a Job whose number of pods Kueue lets change while it runs (KEP-77, `ElasticJobsViaWorkloadSlices`).
pub const ELASTIC_ANNOTATION: &str = "kueue.x-k8s.io/elastic-job";

/// Annotation of a Job: with how many pods Kueue may start it where there is no quota for all (KEP-420,
/// `PartialAdmission`).
pub const LEAST_PODS_ANNOTATION: &str = "kueue.x-k8s.io/job-min-parallelism";

/// Annotation of a Job: where Kueue reduces its `parallelism`, it does its `completions`, so that no index is left.
pub const EQUAL_ANNOTATION: &str = "kueue.x-k8s.io/job-completions-equal-parallelism";

/// Annotation of a Job that Kueue may start with fewer pods: how many were asked for.
pub const QUEUED_SIZE_ANNOTATION: &str = "flux-framework.org/queued-size";

/// How annotations begin by which Kueue chooses nodes near each other (KEP-2724). It reads them in the pod template.
pub const TOPOLOGY_ANNOTATIONS: &str = "kueue.x-k8s.io/podset-";

/// Tells a container's scripts how many cores the user means it to use (`cores`).
pub const CORES_VARIABLE: &str = "FLUX_CORES";

/// The container in which the broker and the command run.
#[derive(Debug, Clone, PartialEq)]
pub struct Runner {
    /// Its container, without what the operator adds; the name is the MiniCluster's.
    pub container: Container,
    /// The user that Flux runs as.
    pub user: FluxUser,
    /// Scripts of the user around the run.
    pub hooks: Hooks,
    /// What the lead runs, with its node, task and option flags already decided.
    pub workload: Workload,
}

/// The pod of `spec.services`: what the workload needs and Flux does not run.
#[derive(Debug, Clone, PartialEq)]
pub struct ServicesPod {
    /// The whole pod.
    pub spec: PodSpec,
    /// What a pod that was made from this specification keeps of it.
    pub fixed_fields: FixedFields,
}

/// A container beside the runner.
#[derive(Debug, Clone, PartialEq)]
pub struct Sidecar {
    /// Without what the operator adds.
    pub container: Container,
    /// Absent: the image's own entrypoint runs (`noWrapEntrypoint`).
    pub wrapped: Option<SidecarConfig>,
}
