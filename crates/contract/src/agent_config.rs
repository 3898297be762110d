//! `agent.toml`: the document from which the agent takes its settings. The operator writes it.
//!
//! The operator has decided every value: a missing field never means that the user forgot it. The agent refuses unknown
//! fields, so that it never ignores a setting of a newer operator.
//!
//! An operator may be replaced while agents of another release run, and it writes the document again when such a run
//! changes its size. Therefore **a new field has a serde default, and is left out at its default**: the operator then
//! writes the document of an older release again without any difference (docs/design/operator-and-agent.md). A change
//! that cannot be made in this way needs another [`AgentConfig::VERSION`]; the operator does not touch runs of another
//! version.

use crate::layout::Layout;
use crate::names::ClusterName;
use crate::workload::Workload;
use flux_protocol::Hostlist;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Why a text is not an [`AgentConfig`].
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not TOML, or not this document.
    #[error("read the agent's configuration")]
    Parse(#[source] toml::de::Error),
    /// Written for another version of the protocol.
    #[error("the agent's configuration has version {0}, this agent reads version {expected}: use images of one release", expected = AgentConfig::VERSION)]
    Version(u32),
    /// A value TOML cannot express.
    #[error("write the agent's configuration")]
    Render(#[source] toml::ser::Error),
}

/// The whole document.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// Version of the protocol, [`AgentConfig::VERSION`].
    pub version: u32,
    /// The identity of the MiniCluster.
    pub cluster: ClusterIdentity,
    /// Where the shared volume is.
    pub layout: Layout,
    /// How the agent and the view come into the pod.
    #[serde(default, skip_serializing_if = "is_default")]
    pub install: Install,
    /// The Flux installation.
    pub view: View,
    /// The user that Flux runs as.
    pub user: FluxUser,
    /// How brokers find each other.
    pub network: Network,
    /// Options and configuration of every broker.
    pub broker: Broker,
    /// The reaction of a worker to the end of its broker.
    pub worker: WorkerPolicy,
    /// The work of the lead, from the quorum on.
    pub workload: Workload,
    /// How much is logged, and whether a failed hook ends the run.
    pub logging: Logging,
    /// The time limits of an end, and of the run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shutdown: Shutdown,
    /// Scripts of the user that run at given points.
    #[serde(default)]
    pub hooks: Hooks,
    /// State to restore from and to dump to.
    pub archive: Option<Archive>,
    /// How the lead's agent counts the pods that the queue needs (`autoscale`).
    pub autoscale: Option<Autoscale>,
    /// How the lead's agent serves the API of the instance (`flux.rest`).
    pub rest: Option<Rest>,
    /// True: a munge key is mounted at [`crate::MUNGE_MOUNT`], for the agent to install (`flux.mungeSecret`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub munge: bool,
    /// Lines for `flux-view.sh`, by variable name (`flux.environment`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The number of CPUs that a kubelet with a static CPU manager gives to the runner alone, if it gives any.
    pub exclusive_cpus: Option<u32>,
    /// True: the archive contains the command of this Job, so a resumed instance does not submit it again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub submitted: bool,
    /// How many of the lead's pods, from the first on, ended before their runner was started, and so without running the
    /// command.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unstarted_leads: u32,
    /// Containers beside the runner that the agent starts, by container name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sidecars: BTreeMap<String, SidecarConfig>,
}

/// The identity of a MiniCluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterIdentity {
    /// Name of the MiniCluster; pods are called `<name>-<index>`.
    pub name: ClusterName,
    /// Its namespace.
    pub namespace: String,
    /// Number of pods asked for.
    pub size: u32,
}

/// How the agent and the view come into a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Install {
    /// Init containers copy them into the shared volume.
    #[default]
    Copy,
    /// Their images are mounted ([`crate::AGENT_MOUNT`], [`crate::VIEW_MOUNT`]): the runner's agent links
    /// [`Layout::bin_dir`], [`Layout::view`] and [`Layout::SOFTWARE_MOUNT`] to what is in them.
    Image,
}

/// The Flux installation the agent uses.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// True: Flux is the view in the shared volume. False: `flux` is on the image's own `PATH`.
    pub enabled: bool,
    /// Replaces the view's own site-packages directory on `PYTHONPATH`.
    pub python_path: Option<String>,
}

/// The user that Flux runs as when the container starts as root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FluxUser {
    /// Account name; an account of that name in the image is used as it is.
    pub name: String,
    /// uid and gid of the account if the agent has to create it.
    pub uid: u32,
    /// True: Flux runs as root (`commands.runFluxAsRoot`).
    pub run_as_root: bool,
    /// Capabilities of a container that starts as root which Flux's user keeps, e.g. `IPC_LOCK`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
}

/// How brokers find each other.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// The headless Service, the pods' subdomain.
    pub headless_service: String,
    /// Port of the overlay network.
    pub port: u16,
    /// Address of the lead's Service, to which workers connect. Without it they connect by name.
    pub lead_address: Option<IpAddr>,
    /// The hosts in rank order, and the lead.
    pub bootstrap: Bootstrap,
    /// How long a worker waits for the lead before it gives up, in seconds.
    pub lead_deadline_seconds: u64,
}

/// The hosts of the Flux instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub enum Bootstrap {
    /// The lead is index 0 of this MiniCluster.
    Root {
        /// All hosts that may ever join, in rank order.
        hosts: Hostlist,
    },
    /// The lead is elsewhere; every pod of this MiniCluster is a worker (bursting).
    Child {
        /// Host name or address of the lead, as seen from this MiniCluster.
        lead: String,
        /// Port of the lead, as seen from this MiniCluster.
        lead_port: u16,
        /// All hosts that may ever join, in rank order; the first is the lead.
        hosts: Hostlist,
    },
}

impl Bootstrap {
    /// The hosts in rank order.
    pub const fn hosts(&self) -> &Hostlist {
        match self {
            Self::Root { hosts } | Self::Child { hosts, .. } => hosts,
        }
    }
}

/// Options and configuration of a broker.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Broker {
    /// How many brokers have to be online before the command runs, if not all.
    pub quorum: Option<u32>,
    /// `tbon.connect_timeout` in Flux Standard Duration; absent: Flux's own default.
    pub connect_timeout: Option<String>,
    /// `tbon.topo`; absent: flat.
    pub topology: Option<String>,
    /// `log-stderr-level`, 0 to 7.
    pub log_level: u8,
    /// True: the broker listens at [`Layout::local_socket`] for all containers of the pod.
    pub local_socket: bool,
    /// True: `tbon.zmqdebug=1`.
    pub zeromq_debug: bool,
    /// Program and arguments put before the broker (`flux start --wrap`).
    pub wrap: Option<String>,
    /// The whole of `broker.toml`, verbatim, instead of the agent's own.
    pub custom_config: Option<String>,
    /// Queue policy of Fluxion.
    pub queue_policy: String,
    /// True: the scheduler of flux-core even where the view has Fluxion.
    pub simple_scheduler: bool,
}

/// The reaction of a worker to the end of its broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerPolicy {
    /// Leave when the broker ended with 0 because the lead ends the instance, start again otherwise.
    LeaveWhenDone,
    /// Leave with any exit code of the broker (`flux.completeWorkers`).
    LeaveAlways,
    /// Start again even after a clean end: the lead may be run again (`backoffLimit`).
    Rejoin,
}

/// Whether a field is at its default, and is left out of the document.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// How much is logged, and whether a failed hook ends the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "one switch of the user's document each")]
pub struct Logging {
    /// Only the job's output.
    pub quiet: bool,
    /// A failing hook ends the run.
    pub strict: bool,
    /// The `FLUXTIME` lines on the lead.
    pub timed: bool,
    /// More from Flux and from the agent.
    pub debug: bool,
}

/// The time limits of an end, and of the run.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Shutdown {
    /// The pod's `terminationGracePeriodSeconds`: seconds for everything that the agent does after a stop.
    #[serde(skip_serializing_if = "is_default_grace_seconds")]
    pub grace_seconds: u64,
    /// Seconds from the start of the agent in the pod of index 0 after which that agent ends the run.
    /// Absent: no limit. The agent reads it again during the run.
    pub deadline_seconds: Option<u64>,
    /// Seconds without a job and a session after which the lead's agent ends an interactive instance. Absent: no limit.
    pub idle_seconds: Option<u64>,
}

impl Shutdown {
    /// The grace period of a pod without `terminationGracePeriodSeconds`.
    pub const DEFAULT_GRACE_SECONDS: u64 = 30;

    /// Reads this section of the document `text`, and ignores the others; `None` if it cannot be read.
    pub fn of_document(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Part {
            /// Missing in a document that was cut off.
            #[serde(rename = "version")]
            _version: u32,
            #[serde(default)]
            shutdown: Shutdown,
        }
        toml::from_str(text).ok().map(|part: Part| part.shutdown)
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self {
            grace_seconds: Self::DEFAULT_GRACE_SECONDS,
            deadline_seconds: None,
            idle_seconds: None,
        }
    }
}

/// How the lead's agent counts the pods that the queue needs. The agent reads it again during the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Autoscale {
    /// The largest number of pods. A job that needs more never runs.
    pub max_size: u32,
    /// How long a pod is kept that no job needs, in seconds.
    pub idle_seconds: u64,
}

impl Autoscale {
    /// Reads this section of the document `text`; `None` if it is missing or cannot be read.
    pub fn of_document(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Part {
            autoscale: Option<Autoscale>,
        }
        toml::from_str(text).ok().and_then(|part: Part| part.autoscale)
    }
}

/// How the lead's agent serves the API of the instance.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rest {
    /// Port of the pod.
    pub port: u16,
    /// [`crate::token::fingerprint`] of the token that may do everything. `flux-rest` reads both fingerprints again during
    /// the run.
    pub token_sha256: String,
    /// The same of the token that reads only. Absent in a document of an operator without such tokens: agents of its
    /// release read no fingerprint again.
    pub read_only_token_sha256: Option<String>,
    /// The value of `flux.rest.rotation` for which the tokens were made.
    pub rotation: Option<String>,
    /// True: the API is served over TLS, with the certificate at [`crate::REST_TLS_MOUNT`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: bool,
}

/// The part of [`Rest`] that is read again during the run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RestTokens {
    /// [`Rest::token_sha256`].
    pub token_sha256: String,
    /// [`Rest::read_only_token_sha256`].
    pub read_only_token_sha256: Option<String>,
}

impl RestTokens {
    /// Reads the fingerprints in the document `text`, and ignores everything else in it.
    pub fn of_document(text: &str) -> Result<Self, ConfigError> {
        #[derive(Deserialize)]
        struct Part {
            rest: RestTokens,
        }
        toml::from_str(text).map(|part: Part| part.rest).map_err(ConfigError::Parse)
    }
}

/// Whether the grace period is the default of Kubernetes, which is left out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_default_grace_seconds(seconds: &u64) -> bool {
    *seconds == Shutdown::DEFAULT_GRACE_SECONDS
}

/// Scripts of the user, which the container's `sh` runs. Later processes get their environment and directory.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hooks {
    /// `commands.init`: before everything else.
    pub init: Option<String>,
    /// `preCommand`: after the environment is set up.
    pub pre_command: Option<String>,
    /// `commands.pre`: on lead and workers.
    pub pre: Option<String>,
    /// `commands.brokerPre`: on the lead.
    pub broker_pre: Option<String>,
    /// `commands.workerPre`: on workers.
    pub worker_pre: Option<String>,
    /// `commands.post`: always, at the end.
    pub post: Option<String>,
}

/// State kept from one MiniCluster to the next.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    /// The file from which the state is restored if it exists, and to which it is dumped at the end.
    pub path: String,
    /// How often the lead writes the state beside that file while the instance runs, in seconds; `None`: at the end alone.
    pub every_seconds: Option<u32>,
}

/// A container beside the runner.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SidecarConfig {
    /// Wait for the broker's socket before the command.
    pub wait_for_socket: bool,
    /// The command, run by the container's `sh`.
    pub command: Option<String>,
    /// `commands.init`.
    pub init: Option<String>,
    /// `commands.servicePre`.
    pub service_pre: Option<String>,
    /// `commands.post`.
    pub post: Option<String>,
}

impl AgentConfig {
    /// The version this crate reads and writes.
    pub const VERSION: u32 = 1;

    /// Reads the document; refuses unknown fields and other versions.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let config = toml::from_str::<Self>(text);
        let version = match &config {
            Ok(config) => Some(config.version),
            Err(_) => toml::from_str::<Head>(text).ok().map(|head| head.version),
        };
        match version {
            Some(found) if found != Self::VERSION => Err(ConfigError::Version(found)),
            _ => config.map_err(ConfigError::Parse),
        }
    }

    /// Writes the document: the same value gives the same bytes.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        toml::to_string(self).map_err(ConfigError::Render)
    }
}

/// The version alone: the error for another version names the version, not an unknown field.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

#[cfg(test)]
mod tests;
