//! `spec.flux`, `spec.network`, `spec.logging` and `spec.archive`.

use super::rules::invalid;
use educe::Educe;
use k8s_openapi::api::core::v1::{ResourceRequirements, SecurityContext};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;
use std::str::FromStr;

/// Services and affinity.
#[skip_serializing_none]
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// Name of the headless Service and of the pods' subdomain: pods are reached as
    /// `<name>-<index>.<headlessName>`. MiniClusters of a namespace that give the same name share the Service,
    /// and their pods find each other. Default: the name of the MiniCluster.
    #[x_kube(
        validation = Rule::new("self == '' || (self.size() <= 63 && self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))")
            .message("not a DNS label: use at most 63 lower-case letters, digits and '-', starting with a letter and not ending with '-'")
            .reason(Reason::FieldValueInvalid)
    )]
    pub headless_name: Option<String>,

    /// Leave out the preference for one pod a node and one zone for all, and `pod.nodeAffinity`.
    /// Default false.
    #[serde(default)]
    pub disable_affinity: bool,
}

/// What the pods log, and whether a failed hook ends the run.
#[derive(JsonSchema, Educe, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[educe(Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Logging {
    /// Log only the output of the command and of `commands.post`, and errors. Default false.
    pub quiet: bool,

    /// A failing `commands.*` hook ends the run with exit code 69; when false it is reported and
    /// the run goes on. Default true.
    #[educe(Default = true)]
    pub strict: bool,

    /// More from Flux about the submission (`-vvv`), and from the agent. Default false.
    pub debug: bool,

    /// More from the `ZeroMQ` sockets in the broker's log. Default false.
    pub zeromq: bool,

    /// Wall times of the command and of the whole instance, as `FLUXTIME` lines in the lead's log.
    /// The image needs no `time` program. Default false.
    pub timed: bool,
}

/// State of the Flux instance kept from one MiniCluster to the next.
#[skip_serializing_none]
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Archive {
    /// File that is restored from if it exists when the lead starts, and dumped to when it ends,
    /// e.g. `/state/archive.tar.gz`. It must lie on a volume to outlive the pods.
    pub path: String,

    /// Write the state also each time that so many seconds have passed, to a file beside the archive with the suffix
    /// `.checkpoint`: a lead that is lost without a stop begins again from it. Needs a `path` in the format `.tar`,
    /// `.tar.gz` or `.tgz`. Default: the state is written when the instance ends.
    #[schemars(range(min = 10, max = 86_400))]
    pub every_seconds: Option<i32>,
}

/// Flux itself.
#[skip_serializing_none]
#[derive(KubeSchema, Educe, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[educe(Default)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = invalid(".curveCertSecret", "!(has(self.curveCert) && self.curveCert != '' && has(self.curveCertSecret) && self.curveCertSecret != '')",
        "curveCert and curveCertSecret exclude each other: keep one, best the Secret"),
    validation = invalid(".leadBroker", "!(has(self.leadBroker) && has(self.bursting) && has(self.bursting.leadBroker))",
        "give either leadBroker or bursting.leadBroker"),
    validation = invalid(".leadBroker.hostlist", "!(has(self.leadBroker) && has(self.leadBroker.hostlist) && has(self.bursting) && has(self.bursting.hostlist))",
        "give either leadBroker.hostlist or bursting.hostlist"),
    validation = invalid(".leadBroker.hostlist", "!(has(self.leadBroker) && has(self.leadBroker.hostlist) && self.leadBroker.hostlist != '' && has(self.bursting) && has(self.bursting.clusters) && self.bursting.clusters.size() > 0)",
        "leadBroker.hostlist and bursting.clusters exclude each other, because the hostlist names all hosts: keep one")
)]
pub struct Flux {
    /// Where Flux comes from: an image with a view that is put beside the application's image.
    #[serde(default)]
    pub container: FluxContainer,

    /// Architecture of the images: `amd64` (`x86_64`) or `arm64` (`arm`, `aarch64`). The pods then
    /// go to nodes of that architecture (`kubernetes.io/arch`) only, and where no view image is
    /// named the one for it is taken. Default: any node.
    #[schemars(extend("enum" = ["", "amd64", "x86_64", "arm64", "arm", "aarch64"]))]
    pub arch: Option<String>,

    /// Replaces `flux submit`, e.g. `flux mini submit` for old releases. Without it one job is submitted as by
    /// `flux run`, which shows its output at once. Not used with `batch` and `launcher`.
    pub submit_command: Option<String>,

    /// Goes into `--wrap` of every broker's start, e.g. `strace,-e,network,-tt`. The command is no child of the
    /// broker: it is not wrapped.
    pub wrap: Option<String>,

    /// How long a broker tries one connection to its parent before the next, as a Flux duration
    /// (`5s`, `500ms`). `""` leaves it to Flux. Default `5s`.
    #[serde(default = "connect_timeout")]
    #[educe(Default(expression = connect_timeout()))]
    pub connect_timeout: String,

    /// Flags added to the submission, as on a command line, e.g. `-o cpu-affinity=per-task`. Not used with
    /// `launcher`.
    pub option_flags: Option<String>,

    /// Only the lead is reachable by name, not the workers. Default false.
    #[serde(default)]
    pub minimal_service: bool,

    /// The broker does not listen at the documented path of the local socket. Default false.
    #[serde(default)]
    pub disable_socket: bool,

    /// Shape of the brokers' tree: `kary:N`, `binomial`, `mincrit`, or `custom` for all under the lead. Default: `custom`
    /// below 256 hosts (`maxSize`), with bursting, `brokerConfig` or `minimalService`; else `kary:32`.
    pub topology: Option<String>,

    /// Containers beside the one that runs Flux start without waiting for the broker's socket. Default false.
    #[serde(default)]
    pub no_wait_socket: bool,

    /// A worker leaves after the first end of its broker, whatever its exit code, and is not
    /// started again. Default false.
    #[serde(default)]
    pub complete_workers: bool,

    /// Seconds that a pod has to end from SIGTERM on: `terminationGracePeriodSeconds` of the pods. A
    /// worker that leaves (the MiniCluster shrinks, a node is drained, a pod is deleted or evicted) drains its
    /// rank and uses most of them to let the jobs there end. `flux jobs -a` shows those that do
    /// not. Default 30.
    #[schemars(range(min = 0, max = 604_800))]
    pub drain_seconds: Option<i64>,

    /// Most verbose level of the broker's messages in the log: 0 (emergencies) to 7 (debug).
    /// 0 with `logging.quiet`. Default 6.
    #[serde(default = "log_level")]
    #[educe(Default(expression = log_level()))]
    #[schemars(range(min = 0, max = 7))]
    pub log_level: i32,

    /// Text of the CURVE certificate, verbatim, where several clusters must share one (bursting). Default: one is made.
    /// Prefer `curveCertSecret`: anyone who may read the MiniCluster can read this field.
    pub curve_cert: Option<String>,

    /// Name of a Secret in the same namespace whose key `curve.cert` holds the CURVE certificate.
    pub curve_cert_secret: Option<String>,

    /// Scheduler of the Flux instance.
    #[serde(default)]
    pub scheduler: Scheduler,

    /// Name of a Secret with the key `munge.key`: installed as `/etc/munge/munge.key` in the
    /// container that runs Flux, for the image's user `munge` alone, before any hook but
    /// `commands.init`. No munge daemon is started: `commands.pre` can do that, as
    /// `examples/munge` shows. The container has to start as root.
    pub munge_secret: Option<String>,

    /// The lead serves an API of the instance over HTTP, and a page, as long as the instance runs: `flux-agent serve`.
    /// The Service `<name>-rest` leads to it. Each request needs a token of the Secret that the condition `RestReady`
    /// names: with `read-only-token` everything can be read, with `token` programs can be run as Flux's user.
    pub rest: Option<Rest>,

    /// Clusters that extend this one, or the one this extends.
    pub bursting: Option<Bursting>,

    /// Same as `bursting.leadBroker`.
    pub lead_broker: Option<LeadBroker>,

    /// The whole of the broker's configuration (`broker.toml`), verbatim. It includes the settings of `scheduler`,
    /// which cannot be given as well. Jobs of `command` are validated only if it has a table `[ingest]`.
    pub broker_config: Option<String>,

    /// Environment that `flux-view.sh` exports, by variable name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
}

/// The API of the instance over HTTP.
#[skip_serializing_none]
#[derive(JsonSchema, Educe, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[educe(Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Rest {
    /// Port of the lead's pod at which it is served. Default 18050.
    #[educe(Default(expression = flux_contract::invocation::REST_PORT.into()))]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,

    /// Any text. Another one, also while the instance runs, makes new tokens in a new Secret. The lead accepts them, and
    /// no longer those before, as soon as the kubelet has updated its configuration, mostly within two minutes.
    #[schemars(length(max = 256))]
    pub rotation: Option<String>,

    /// Name of a Secret of type `kubernetes.io/tls` in the same namespace: the API is served with this certificate over
    /// TLS 1.3, at port 443 of the Service. A renewed certificate is taken without a restart. Without it nothing is
    /// encrypted, and the port of the Service is 80.
    pub tls_secret_name: Option<String>,
}

fn connect_timeout() -> String {
    "5s".to_owned()
}

const fn log_level() -> i32 {
    6
}

/// Scheduler of the Flux instance.
#[derive(JsonSchema, Educe, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[educe(Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Scheduler {
    /// Use the scheduler of flux-core even where the view has Fluxion. Default false: then Fluxion
    /// is the scheduler where the view has it. Takes flux-core 0.79 or later; an older one loads
    /// Fluxion if and only if both have the same prefix. `load-fluxion.sh` replaces the scheduler
    /// of a running instance. Excludes `brokerConfig`.
    pub simple: bool,

    /// Queue policy of Fluxion: `fcfs`, `easy`, `hybrid` or `conservative`. Default `fcfs`. The
    /// scheduler of flux-core has no policies. One that is not the default excludes `brokerConfig`.
    #[educe(Default(expression = "fcfs".to_owned()))]
    pub queue_policy: String,
}

/// Clusters that extend this one, or the one this extends. All must list the same clusters in the
/// same order: the order decides the ranks.
#[skip_serializing_none]
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = invalid(".hostlist", "!(has(self.hostlist) && self.hostlist != '' && has(self.clusters) && self.clusters.size() > 0)",
        "hostlist and clusters exclude each other, because the hostlist names all hosts: keep one"),
    validation = invalid(".hostlist", "!(has(self.hostlist) && has(self.leadBroker) && has(self.leadBroker.hostlist))",
        "give either hostlist or leadBroker.hostlist")
)]
pub struct Bursting {
    /// The lead this MiniCluster's brokers join; absent in the cluster that has the lead.
    pub lead_broker: Option<LeadBroker>,

    /// All hosts in rank order, e.g. `flux-sample-[0-3],gffw-compute-a-[001-003]`, where their names
    /// do not follow `<name>-<index>`. The first is the lead.
    pub hostlist: Option<String>,

    /// The clusters that extend the one with the lead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    #[schemars(length(max = 64))]
    pub clusters: Vec<BurstCluster>,
}

/// The lead of another MiniCluster, reached from outside.
#[skip_serializing_none]
#[derive(JsonSchema, Educe, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[educe(Default)]
#[serde(rename_all = "camelCase", default)]
pub struct LeadBroker {
    /// Host name or address at which the lead is reached from here.
    pub address: Option<String>,

    /// Name of the MiniCluster that has the lead. Where that is this one, it has the lead itself.
    pub name: Option<String>,

    /// Number of hosts registered by the MiniCluster that has the lead (its `maxSize`): the ranks follow from
    /// it. Not used with a hostlist. Default: `size` of this MiniCluster.
    #[schemars(range(min = 1, max = 100_000))]
    pub size: Option<i32>,

    /// Port at which the lead is reached from here, often a node port. Default 8050.
    #[educe(Default(expression = flux_contract::OVERLAY_PORT.into()))]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,

    /// Same as `bursting.hostlist`.
    pub hostlist: Option<String>,
}

/// A cluster that extends the one with the lead.
#[skip_serializing_none]
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BurstCluster {
    /// Name of the cluster, the prefix of its hosts. Default `burst-<position>`.
    pub name: Option<String>,

    /// Number of its hosts. Default: `size` of this MiniCluster.
    #[schemars(range(min = 1, max = 100_000))]
    pub size: Option<i32>,
}

/// Where Flux comes from.
#[skip_serializing_none]
#[derive(JsonSchema, Educe, Debug, Clone, PartialEq, Serialize, Deserialize)]
#[educe(Default)]
#[serde(rename_all = "camelCase", default)]
pub struct FluxContainer {
    /// The application's image has its own Flux: only the configuration is prepared. Default
    /// false.
    pub disable: bool,

    /// How the agent and the view come into the pods.
    pub install: Option<Install>,

    /// Where the volume lies that the pod's containers share. `Disk`: on the node's disk. `Memory`: in memory
    /// (`tmpfs`), which counts as memory of the pod: the view must fit into the memory limits of the init container
    /// (`resources`, or those of the container that runs Flux) and of all containers. With `install: Image` nothing is copied, and the
    /// volume holds only what the brokers write. Default `Disk`.
    pub medium: Medium,

    /// Name of the volume that holds Flux and, with `Copy`, of the init container. Default `flux-view`.
    #[educe(Default(expression = "flux-view".to_owned()))]
    pub name: String,

    /// Image with the view of Flux; its libraries must fit the application's image. Default: the
    /// operator's (`--view-image`, and `--arm-view-image` with `arch: arm`).
    pub image: Option<String>,

    /// Pull the image at every start. Default false.
    pub pull_always: bool,

    /// Name of a pull secret for the image.
    pub image_pull_secret: Option<String>,

    /// Working directory of the init container (`Copy`).
    pub working_dir: Option<String>,

    /// Goes onto `PYTHONPATH` instead of the view's own site-packages directory.
    pub python_path: Option<String>,

    /// Directory at which all containers see Flux. Default `/mnt/flux`.
    #[educe(Default(expression = flux_contract::Layout::DEFAULT_MOUNT.to_owned()))]
    pub mount_path: String,

    /// Resources of the init container (`Copy`).
    pub resources: Option<ResourceRequirements>,

    /// Security context of the init container (`Copy`).
    pub security_context: Option<SecurityContext>,
}

/// How the agent and the view come into the pods. `Image`: their images are mounted as image volumes, read-only; no
/// init container, nothing is copied. `Copy`: init containers copy them into a volume of the pod, where the view can be
/// written to. `Auto`: `Image` where the API server and all nodes have image volumes and no runtime class is set, else
/// `Copy`. `status.install` has the method and the reason. Default: the operator's (`--install`), which is `Auto`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Install {
    /// Mounted where the cluster is known to be able to, else copied.
    #[default]
    Auto,
    /// Mounted as image volumes.
    Image,
    /// Copied by init containers.
    Copy,
}

impl Install {
    /// The values as users write them.
    pub const NAMES: [&str; 3] = ["Auto", "Image", "Copy"];
}

impl FromStr for Install {
    type Err = String;

    /// Reads one of [`Self::NAMES`]; upper and lower case count the same.
    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Auto, Self::Image, Self::Copy]
            .into_iter()
            .zip(Self::NAMES)
            .find_map(|(method, name)| name.eq_ignore_ascii_case(text).then_some(method))
            .ok_or_else(|| format!("{text:?} is none of {}", Self::NAMES.join(", ")))
    }
}

/// Where the volume lies that the pod's containers share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Medium {
    /// On the node's disk.
    #[default]
    Disk,
    /// In memory.
    Memory,
}
