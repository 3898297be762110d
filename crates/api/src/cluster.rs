//! The validated MiniCluster, which the rest of the operator works with.
//!
//! Only [`validate::validate()`] makes a [`Cluster`], with every default resolved and every rule of ours checked: no
//! `Option` means "perhaps the user forgot", and no empty string "unset". Kubernetes checks what is passed on whole.

mod fixed_fields;
pub mod validate;

pub use fixed_fields::{FixedFields, RUN_ID_ANNOTATION, RUN_KEY};

use crate::crd::{Autoscale, Gang, Install, Medium, MiniCluster};
use flux_contract::{
    AgentConfig, Archive, Bootstrap, Broker, ClusterName, FluxUser, Hooks, Logging, NameError,
    Rest, SidecarConfig, Submission, Workload,
};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource as _, ResourceExt as _};
use std::collections::BTreeMap;

const DEFAULT_NAMESPACE: &str = "default";

/// A MiniCluster with every default resolved and every rule checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// Name of the MiniCluster.
    pub name: ClusterName,
    /// Namespace of the MiniCluster and of its objects.
    pub namespace: String,
    /// Owner reference that makes the MiniCluster the controller of its objects.
    pub owner: OwnerReference,
    /// Number of pods.
    pub size: u32,
    /// Number of hosts registered with Flux, which is the largest possible size.
    pub max_size: u32,
    /// The bounds of a size by demand.
    pub autoscale: Option<Autoscale>,
    /// Brokers that must be online before the command runs; absent: `size` if more hosts are registered, else all.
    pub min_size: Option<u32>,
    /// Labels of the Job object: `spec.jobLabels`, and the MiniCluster's labels for a queue.
    pub job_labels: BTreeMap<String, String>,
    /// Annotations of the Job object: the MiniCluster's annotations for a queue.
    pub job_annotations: BTreeMap<String, String>,
    /// Longest time of a run.
    pub deadline_seconds: i64,
    /// True: the agent of the lead ends the run at the deadline, counted from its own start, and the pods stay.
    /// False: the Job controller ends it, counted from the start of the Job, and deletes the pods.
    pub deadline_by_agent: bool,
    /// Seconds from the start of the Job in which the quorum must be reached, if there is such a deadline.
    pub start_deadline_seconds: Option<u64>,
    /// Seconds without a job and a session after which an interactive instance ends.
    pub idle_deadline_seconds: Option<u64>,
    /// True where the specification suspends the MiniCluster.
    pub suspend: bool,
    /// Value of the annotation that starts an idle MiniCluster again.
    pub resume: String,
    /// How often a failed command is run again; 0 by default.
    pub backoff_limit: u32,
    /// Name of the headless Service, and subdomain of the pods.
    pub headless_name: String,
    /// True: the headless Service has only the lead.
    pub minimal_service: bool,
    /// Flux itself.
    pub flux: Flux,
    /// What the agents log.
    pub logging: Logging,
    /// From where the state of the instance is restored, and where it is kept.
    pub archive: Option<Archive>,
    /// The specification that all pods share.
    pub pod: Pod,
    /// The kind of PodGroup that places the pods together.
    pub gang: Gang,
    /// Label whose value must be the same on all nodes of the gang.
    pub topology: Option<String>,
    /// The container with the broker.
    pub runner: Runner,
    /// The containers beside it.
    pub sidecars: Vec<Sidecar>,
    /// The pod of `spec.services`.
    pub services_pod: Option<ServicesPod>,
    /// Paths of given fields that have no effect.
    pub not_acted_on: Vec<String>,
    /// The fields that cannot change while an instance runs.
    pub fixed_fields: FixedFields,
    /// Name of the run, by which a finished MiniCluster is run again.
    pub run_id: Option<String>,
}

impl Cluster {
    /// Whether another MiniCluster has the lead.
    pub const fn joins_another_lead(&self) -> bool {
        matches!(self.flux.bootstrap, Bootstrap::Child { .. })
    }

    /// The identity of the MiniCluster, without its specification.
    pub fn identity(&self) -> Identity {
        Identity {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            owner: self.owner.clone(),
        }
    }

    /// True when the Job is suspended as soon as it is created, by the operator or by a queue. Until it is resumed no
    /// pod needs a Service with an address.
    pub fn begins_suspended(&self) -> bool {
        self.suspend || self.job_labels.contains_key(QUEUE_LABEL)
    }

    /// True when several MiniClusters may share the headless Service.
    pub fn shares_headless_service(&self) -> bool {
        self.headless_name != self.name.as_str()
    }

    /// True when containers are never restarted in their pods. The API server accepts a failure policy only then.
    pub fn never_restarts(&self) -> bool {
        self.pod.spec.restart_policy.as_deref() == Some("Never")
    }

    /// True when the command is never run a second time, while lost pods are replaced.
    pub fn runs_once(&self) -> bool {
        self.backoff_limit == 0 && self.never_restarts()
    }

    /// True when programs or people use the instance while it runs.
    pub const fn is_used_while_up(&self) -> bool {
        self.runner.workload.is_interactive() || self.flux.rest.is_some()
    }

    /// Reduces the number of pods, and with it the quorum and the nodes that the command asks for.
    pub fn reduce_size(&mut self, size: u32) {
        self.size = size;
        self.min_size = self.min_size.map(|least| least.min(size));
        set_nodes(&mut self.runner.workload, size);
    }

    /// Replaces what Services are made of by the values of the instance that `job` and `running` are of, where an edit
    /// is refused: a Service would name pods, ports or containers that the instance does not have.
    pub fn keep_services(&mut self, job: &Job, running: &AgentConfig) {
        self.headless_name.clone_from(&running.network.headless_service);
        let rotation = self.flux.rest.take().map(|rest| rest.rotation);
        self.flux.rest.clone_from(&running.rest);
        if let (Some(rest), Some(rotation)) = (&mut self.flux.rest, rotation) {
            rest.rotation = rotation;
        }
        let refused = self.fixed_fields.changed_since(job.annotations());
        self.sidecars.retain(|sidecar| {
            let of_service = ["", ".name", ".ports"].map(|it| format!("{}{it}", sidecar.field));
            !refused.iter().any(|field| of_service.contains(field))
        });
    }

    /// True if another run is to follow one that was started with `run_id`, once it has ended.
    pub fn asks_for_run_after(&self, run_id: Option<&str>) -> bool {
        self.run_id.is_some() && self.run_id.as_deref() != run_id
    }

    /// Name of the Secret with the CURVE certificate: the user's own, or the one that the operator creates.
    pub fn curve_secret(&self) -> String {
        match &self.flux.curve {
            Curve::Secret(name) => name.clone(),
            Curve::Generate | Curve::Given(_) => {
                self.name.curve_secret(&self.fixed_fields.run(&self.owner.uid))
            }
        }
    }
}

/// Sets the number of nodes for which a command asks to `size`, unless it has fewer tasks.
pub fn set_nodes(workload: &mut Workload, size: u32) {
    let (Workload::Submit { submission: Submission { flags, .. } }
    | Workload::Interactive { submission: Some(Submission { flags, .. }) }
    | Workload::Batch { flags, .. }) = workload
    else {
        return;
    };
    // Nodes, then tasks, are the first flags; the others are the user's.
    if flags.first().is_some_and(|option| option == "-N") {
        flags.drain(..flags.len().min(2));
    }
    let tasks = flags.first().and_then(|flag| flag.strip_prefix("-n")?.parse().ok());
    if tasks.is_none_or(|tasks: u32| tasks >= size) {
        flags.splice(..0, ["-N".to_owned(), size.to_string()]);
    }
}

/// The identity of a MiniCluster, by which its objects are found even if its specification is invalid.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    /// Name of the MiniCluster.
    pub name: ClusterName,
    /// Its namespace.
    pub namespace: String,
    /// Owner reference that makes the MiniCluster the controller of its objects.
    pub owner: OwnerReference,
}

impl Identity {
    /// The identity of `object`; an error for a name under which the operator creates no objects.
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
    /// True: a worker leaves when its broker ends for the first time.
    pub complete_workers: bool,
    /// Options and configuration of every broker, without the quorum.
    pub broker: Broker,
    /// Where the CURVE certificate comes from.
    pub curve: Curve,
    /// Hosts in the order of their ranks, and the lead if another cluster has it.
    pub bootstrap: Bootstrap,
    /// The API of the instance on the lead, if there is one. The operator adds the fingerprints of its tokens.
    pub rest: Option<Rest>,
    /// Secret with the certificate of the API.
    pub rest_tls_secret: Option<String>,
    /// Secret with a munge key, which the agent installs.
    pub munge_secret: Option<String>,
    /// Lines for `flux-view.sh`.
    pub environment: BTreeMap<String, String>,
}

/// Where the CURVE certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Curve {
    /// The operator generates one for each run.
    Generate,
    /// The validated text of `flux.curveCert`.
    Given(flux_protocol::Redacted<String>),
    /// A Secret of the user with the key `curve.cert`.
    Secret(String),
}

/// The view: the files of a Flux installation.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// False: the runner's image has its own Flux.
    pub enabled: bool,
    /// The init container that copies the view, before the operator adds mounts and command; names the shared volume.
    pub container: Container,
    /// Mount path of the shared volume.
    pub mount_path: String,
    /// Medium of the shared volume.
    pub medium: Medium,
    /// Replaces the view's site-packages directory.
    pub python_path: Option<String>,
}

/// The specification that all pods of the Job share.
#[derive(Debug, Clone, PartialEq)]
pub struct Pod {
    /// Labels of the user. The operator's own labels win.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the user.
    pub annotations: BTreeMap<String, String>,
    /// Seconds between SIGTERM and SIGKILL when a pod is deleted (`terminationGracePeriodSeconds`).
    pub grace_seconds: u64,
    /// Strategic-merge patch of the `PodSpec`, applied last.
    pub overlay: Option<serde_json::Value>,
    /// The pod specification without containers and without the operator's volumes.
    pub spec: PodSpec,
}

/// Name of the init container that copies the agent, and of its volume.
pub const AGENT_CONTAINER: &str = "flux-agent";

/// Label of a Job with the queue that it waits in (Kueue, `LocalQueue`).
pub const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

/// Annotation of a Job whose number of pods may change in Kueue while it runs (KEP-77, `ElasticJobsViaWorkloadSlices`).
pub const ELASTIC_ANNOTATION: &str = "kueue.x-k8s.io/elastic-job";

/// Annotation of a Job: the least number of pods with which Kueue may start it (KEP-420, `PartialAdmission`).
pub const LEAST_PODS_ANNOTATION: &str = "kueue.x-k8s.io/job-min-parallelism";

/// Annotation of a Job: Kueue reduces `completions` together with `parallelism`, so that every index has a pod.
pub const EQUAL_ANNOTATION: &str = "kueue.x-k8s.io/job-completions-equal-parallelism";

/// Annotation of a Job that Kueue may start with fewer pods: the requested number.
pub const QUEUED_SIZE_ANNOTATION: &str = "flux-framework.org/queued-size";

/// Prefix of annotations of the pod template by which Kueue chooses nodes close to each other (KEP-2724).
pub const TOPOLOGY_ANNOTATIONS: &str = "kueue.x-k8s.io/podset-";

/// Variable with the number of cores that the user intends for a container (`cores`).
pub const CORES_VARIABLE: &str = "FLUX_CORES";

/// The container in which the broker and the command run.
#[derive(Debug, Clone, PartialEq)]
pub struct Runner {
    /// The container before the operator adds mounts, command and probes. Its name is the MiniCluster's.
    pub container: Container,
    /// The user that Flux runs as.
    pub user: FluxUser,
    /// The user's scripts.
    pub hooks: Hooks,
    /// What the lead runs, with all flags.
    pub workload: Workload,
}

/// The pod of `spec.services`, with services that the workload uses.
#[derive(Debug, Clone, PartialEq)]
pub struct ServicesPod {
    /// The whole pod.
    pub spec: PodSpec,
    /// The fields that cannot change while the pod exists.
    pub fixed_fields: FixedFields,
}

/// A container beside the runner.
#[derive(Debug, Clone, PartialEq)]
pub struct Sidecar {
    /// Path of its field in the specification.
    pub field: String,
    /// The container before the operator adds mounts and command.
    pub container: Container,
    /// What the agent runs; absent if the image's own entrypoint runs (`noWrapEntrypoint`).
    pub wrapped: Option<SidecarConfig>,
}
