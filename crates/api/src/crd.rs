//! The `MiniCluster` custom resource: the specification by the user and the status by the operator.
//!
//! The types define the fields, their defaults, and the rules that the API server checks.
//! [`crate::cluster::validate::validate()`] checks the same rules again, because an object may have been stored
//! before a rule existed, and adds those that CEL cannot express.
//!
//! The API server and these types set the same defaults, which a test compares.

#![expect(
    unreachable_pub,
    reason = "KubeSchema copies each type, with its visibility, into a function"
)]

mod bounds;
mod container;
pub mod definition;
mod flux;
mod pod;
mod reason;
mod rules;
pub mod served;
mod status;

pub use bounds::SPECIFICATION_LIMIT;
pub(crate) use bounds::{broken, out_of_range, too_large};
pub use container::{Commands, Container, ContainerVolume, LifeCycle, SecretKey, UserAccount};
pub use flux::{
    Archive, BurstCluster, Bursting, Flux, FluxContainer, Install, LeadBroker, Logging, Medium,
    Network, Rest, Scheduler,
};
pub use pod::{Gang, Pod, Scheduling};
pub use reason::Reason;
pub use status::{
    InstallMethod, Installed, JobNumbers, MiniClusterStatus, PastRun, RunResult, State,
    TimelineEntry,
};

use educe::Educe;
use kube::{CustomResource, KubeSchema};
use rules::{invalid, required};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// Most pods of an Indexed Job (Kubernetes, `maxParallelismForIndexedJob`).
pub const POD_COUNT_LIMIT: i32 = 100_000;

// The rules of the name apply to objects without a status, that is to new ones: the operator must be able to update
// an object with another name that was stored before the rules existed.
/// A Flux instance of one or more pods, and what it runs.
#[skip_serializing_none]
#[derive(CustomResource, KubeSchema, Educe, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[educe(Default)]
#[kube(
    group = "flux-framework.org",
    version = "v1alpha2",
    kind = "MiniCluster",
    plural = "miniclusters",
    singular = "minicluster",
    shortname = "fmc",
    category = "flux",
    namespaced,
    cel,
    status = "MiniClusterStatus",
    derive = "PartialEq",
    doc = "A MiniCluster is one Flux instance: the pods of an Indexed Job, and what they run.",
    scale(
        spec_replicas_path = ".spec.size",
        status_replicas_path = ".status.size",
        label_selector_path = ".status.selector"
    ),
    printcolumn(
        name = "Size",
        type_ = "integer",
        json_path = ".status.size",
        description = "Pods of the Job"
    ),
    printcolumn(
        name = "Ready",
        type_ = "integer",
        json_path = ".status.readyBrokers",
        description = "Brokers that are online"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.state",
        description = "Pending, Starting, Running, Degraded, Ending, Complete, Failed, Suspended or Invalid"
    ),
    printcolumn(
        name = "Exit",
        type_ = "integer",
        json_path = ".status.exitCode",
        description = "Exit code of the command"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.reason",
        description = "Why the MiniCluster is in this state",
        priority = 1
    ),
    validation = Rule::new("has(self.status) || self.metadata.name.size() <= 52")
        .message("metadata.name: at most 52 characters, because the names derived from it must fit 63")
        .reason(Reason::FieldValueInvalid),
    validation = Rule::new("has(self.status) || self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')")
        .message("metadata.name: not a DNS label; use lower-case letters, digits and '-', starting with a letter and not ending with '-'")
        .reason(Reason::FieldValueInvalid)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = invalid(".maxSize", "!has(self.maxSize) || self.maxSize >= self.size",
        "size must not be greater than maxSize, which a MiniCluster keeps while it runs: give a size up to it, or suspend it and raise both"),
    validation = invalid(".minSize", "!has(self.minSize) || self.minSize <= self.size",
        "size must not be less than minSize: give a size from it, or a lower minSize"),
    validation = invalid(".size", "!has(self.autoscale) || (self.autoscale.minSize <= self.size && self.size <= self.autoscale.maxSize)",
        "size, with which it starts, must be from autoscale.minSize to autoscale.maxSize"),
    validation = invalid(".autoscale.maxSize", "!has(self.autoscale) || !has(self.maxSize) || self.autoscale.maxSize <= self.maxSize",
        "autoscale.maxSize must not be greater than maxSize: raise maxSize, or leave it out"),
    validation = invalid(".autoscale.minSize", "!has(self.autoscale) || self.autoscale.minSize > 0 || (self.interactive && has(self.archive))",
        "0 needs interactive: true and an archive: without pods nothing else remembers the jobs"),
    validation = invalid(".minSize", "!has(self.autoscale) || !has(self.minSize) || self.minSize <= (self.autoscale.minSize > 0 ? self.autoscale.minSize : 1)",
        "minSize, the brokers that a lead waits for, must not be greater than autoscale.minSize, the pods that there always are: lower it, or leave it out"),
    validation = invalid(".autoscale", "!has(self.autoscale) || !self.containers.exists(c, c.batch)",
        "excludes batch, whose jobs run in an instance of its own that keeps its size: use launcher"),
    validation = invalid(".autoscale", "!has(self.autoscale) || !(has(self.flux.bursting) || has(self.flux.leadBroker))",
        "excludes flux.bursting and flux.leadBroker, with which hosts are not this MiniCluster's pods: keep one"),
    validation = Rule::new("!has(self.autoscale) || !has(oldSelf.autoscale) || self.size == oldSelf.size || self.suspend || oldSelf.suspend")
        .message("with autoscale, size is what the MiniCluster starts with, and its queue decides from then on: change autoscale.minSize or autoscale.maxSize, or remove autoscale")
        .field_path(".size")
        .reason(Reason::FieldValueForbidden),
    validation = invalid(".idleDeadlineSeconds", "!has(self.idleDeadlineSeconds) || self.interactive",
        "needs interactive: true: a command ends by itself"),
    validation = invalid(".containers", "self.containers.filter(c, has(c.runFlux) && c.runFlux).size() <= 1",
        "only one container may have runFlux: true: set the others to false"),
    validation = invalid(".containers", "self.containers.size() == 1 || self.containers.exists(c, has(c.runFlux) && c.runFlux) || self.containers.filter(c, !has(c.runFlux)).size() == 1",
        "with several containers, one must have runFlux: true (or all others runFlux: false)"),
    validation = required(".containers", "self.containers.size() == 1 || self.containers.all(c, (has(c.name) && c.name != '') || (has(c.runFlux) ? c.runFlux : !self.containers.exists(d, has(d.runFlux) && d.runFlux)))",
        "every container that does not run Flux needs a name: give it one"),
    validation = invalid(".shareProcessNamespace", "!self.shareProcessNamespace || !has(self.pod.hostPID) || !self.pod.hostPID",
        "excludes pod.hostPID, with which pods see all processes of the node: keep one"),
    validation = invalid(".launcher", "!self.launcher || !self.containers.exists(c, c.batch)",
        "launcher and batch exclude each other: keep one")
)]
pub struct MiniClusterSpec {
    /// Number of pods, each one broker of the Flux instance. May be changed afterwards, up to
    /// `maxSize`; the highest indexes go first when it shrinks. Default 1.
    #[serde(default = "one")]
    #[educe(Default(expression = one()))]
    #[schemars(range(min = 1, max = 100_000))]
    pub size: i32,

    /// Number of hosts registered with Flux, hence the largest `size` this MiniCluster can be
    /// scaled to. Flux keeps it while it runs; it may change while the MiniCluster is suspended. Default:
    /// `autoscale.maxSize`, or `size` without `autoscale`.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_size: Option<i32>,

    /// A size by demand: the operator adds pods for jobs that wait in Flux's queue, and removes pods that no job
    /// has needed for a while, the highest indexes first. The MiniCluster starts with `size` pods. The operator
    /// must reach port 18049 of the lead's pod. The field cannot be added while the MiniCluster runs. Default: the
    /// size is `size`.
    pub autoscale: Option<Autoscale>,

    /// Number of brokers that must be online before the command runs. A queue of Kueue may start the MiniCluster
    /// with so many pods if there is no quota for `size`; the missing pods are then never added. Default: with
    /// `autoscale` its `minSize`; else `size` if more hosts are registered, else all hosts.
    #[schemars(range(min = 1, max = 100_000))]
    pub min_size: Option<i32>,

    /// Number of tasks of the whole command (`-n`). 0 requests only nodes (`-N <size>`); with at least as many tasks as
    /// pods, both are requested. Default 1.
    #[serde(default = "one")]
    #[educe(Default(expression = one()))]
    #[schemars(range(min = 0))]
    pub tasks: i32,

    /// The brokers run until somebody ends the instance. A command, if there is one, is submitted once. Without a
    /// command or script, a MiniCluster is always interactive. Default false.
    #[serde(default)]
    pub interactive: bool,

    /// The command launches Flux jobs itself (a workflow manager): it is not wrapped in
    /// `flux submit`. Same as `launcher` of the container that runs Flux. Default false.
    #[serde(default)]
    pub launcher: bool,

    /// Labels of the Job object.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 256))]
    pub job_labels: BTreeMap<String, String>,

    /// Longest run time in seconds, from the start of the lead's container. Then the agent ends the run within the
    /// grace period of the pods, with reason `DeadlineExceeded` and exit code 72; pods and logs stay. It may be
    /// changed during the run. If the lead never starts, the Job fails half an hour after the deadline, and its
    /// pods and logs are deleted. With `pod.restartPolicy: OnFailure`, or a deadline that was first given during
    /// the run, the Job controller counts from the start of the Job, and deletes pods and logs. Default 31500000
    /// (nearly a year).
    #[serde(default = "deadline_seconds")]
    #[educe(Default(expression = deadline_seconds()))]
    #[schemars(range(min = 1, max = 3_155_760_000_i64))]
    pub deadline_seconds: i64,

    /// How many failed pods are replaced, so that the command runs again. Default: a failed command fails the Job at
    /// once and does not run again; a lost worker is replaced, and so is the lead of an interactive MiniCluster.
    #[schemars(range(min = 0))]
    pub backoff_limit: Option<i32>,

    /// Longest time in seconds, from the start of the Job, in which the quorum must be reached. Otherwise the
    /// MiniCluster fails with reason `StartDeadlineExceeded` and a message with the cause; its pods are deleted. The
    /// time in which the MiniCluster is suspended or waits in a queue does not count, and after it the count starts
    /// again. Default: none.
    #[schemars(range(min = 1, max = 3_155_760_000_i64))]
    pub start_deadline_seconds: Option<i64>,

    /// Seconds without a job and without a session after which an interactive MiniCluster ends, and is complete.
    /// A session is a program that `kubectl flux shell`, `exec` or `run --interactive` has started in the lead's pod, or
    /// that it has left there. Default: it ends when somebody ends it.
    #[schemars(range(min = 1, max = 3_155_760_000_i64))]
    pub idle_deadline_seconds: Option<i64>,

    /// Suspend the MiniCluster: its jobs are ended, its state is dumped to the `archive` if there is one, and its
    /// pods are deleted. When this is false again, the instance starts again with the state of the archive, and the
    /// command from its beginning. Other fields may change in between, as during a run. In a queue of Kueue, the
    /// queue decides instead.
    #[serde(default)]
    pub suspend: bool,

    /// Delete the MiniCluster and all its objects when its lead has finished: the same as `ttlSecondsAfterFinished: 0`.
    /// Default false.
    #[serde(default)]
    pub cleanup: bool,

    /// Delete the MiniCluster and all its objects this many seconds after it has finished, whether it succeeded or
    /// failed. The field may be added or changed at any time. Default: it stays.
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,

    /// Names the run. With another value a MiniCluster that has finished runs again, with all fields as they are
    /// then: its Job is deleted with its pods, and a new one is created. During a run another value waits for the
    /// run's end, with the changes that this run cannot take. Without a value, nothing runs again.
    #[schemars(length(min = 1, max = 63))]
    pub run_id: Option<String>,

    /// All containers of a pod see each other's processes. Default false.
    #[serde(default)]
    pub share_process_namespace: bool,

    /// Services and affinity.
    #[serde(default)]
    pub network: Network,

    /// Flux itself: where it comes from and how its brokers are configured.
    #[serde(default)]
    pub flux: Flux,

    /// What the pods log, and whether a failed hook ends the run.
    #[serde(default)]
    pub logging: Logging,

    /// State of the Flux instance kept from one MiniCluster to the next.
    pub archive: Option<Archive>,

    /// What all pods have in common.
    #[serde(default)]
    pub pod: Pod,

    /// How the pods are placed together.
    #[serde(default)]
    pub scheduling: Scheduling,

    /// Containers of every pod. Exactly one runs Flux: the only one, or the one with
    /// `runFlux: true`. The others run beside it and need a name.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    #[schemars(length(min = 1, max = 16))]
    pub containers: Vec<Container>,

    /// Containers of one extra pod, `<name>-services`, beside the Flux instance, reached as
    /// `<name>-services.<headlessName>` (not with `flux.minimalService`). Each needs a name. The
    /// image's entrypoint runs, or `command` if it is given; a container that fails is started
    /// again. Of `pod`, the overlay, the resources, the restart policy and the node affinity do not
    /// apply to it. It is deleted when the MiniCluster has finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(
        merge_strategy = ListMerge::Atomic,
        validation = Rule::new("self.all(c, has(c.name) && c.name != '')")
            .message("every service needs a name: give it one")
            .reason(Reason::FieldValueRequired),
        validation = Rule::new("self.all(c, !has(c.commands) || !(has(c.commands.pre) || has(c.commands.brokerPre) || has(c.commands.preBroker) || has(c.commands.workerPre) || has(c.commands.preWorker)))")
            .message("a service does not run Flux: commands.pre, brokerPre and workerPre do not apply, remove them")
            .reason(Reason::FieldValueForbidden)
    )]
    #[schemars(length(max = 16))]
    pub services: Vec<Container>,
}

impl MiniCluster {
    /// The requested number of pods: by the specification, or by demand with `autoscale`.
    pub fn size(&self) -> i32 {
        let status = self.status.as_ref().filter(|status| status.size > 0);
        let by_queue = status.filter(|_| self.spec.autoscale.is_some());
        by_queue.map_or(self.spec.size, |status| status.size)
    }

    /// The state; `None` before the first reconcile.
    pub fn state(&self) -> Option<State> {
        self.status.as_ref().and_then(|status| status.state)
    }
}

const fn one() -> i32 {
    1
}

pub(crate) const fn deadline_seconds() -> i64 {
    31_500_000
}

/// The bounds of a size by demand.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Autoscale {
    /// Least number of pods. With 0 a MiniCluster that no job needs is suspended, until `kubectl flux submit`, or a
    /// new value of its annotation `flux-framework.org/resume`, starts it again; it has to be `interactive`, and needs
    /// an `archive` that keeps its jobs. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 100_000))]
    pub min_size: i32,

    /// Largest number of pods. A job that needs more gets none.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_size: i32,

    /// Seconds for which no job must have needed a pod before it is removed. Default 60.
    #[serde(default = "idle_seconds")]
    #[schemars(range(min = 1, max = 31_500_000))]
    pub idle_seconds: i32,
}

/// As long as the autoscaler of `KubeRay` waits (`idleTimeoutSeconds` of its `autoscalerOptions`).
const fn idle_seconds() -> i32 {
    60
}
