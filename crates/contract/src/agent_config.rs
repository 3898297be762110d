//! `agent.toml`: what the operator tells the agent.
//!
//! Every value is decided: no field means "perhaps the user forgot". Unknown fields are refused,
//! so that an agent never ignores what a newer operator asks of it.
//!
//! An operator may be replaced while agents of another release run, and it writes the document
//! again when such a run changes its size. Therefore **a new field has a serde default, and is left
//! out at its default**: what an older release wrote is then written again to the byte
//! (docs/design/operator-and-agent.md). What cannot be said that way needs another
//! [`AgentConfig::VERSION`]; a run with another version is left as it is.

use crate::layout::Layout;
use crate::names::ClusterName;
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
    /// Which MiniCluster this is.
    pub cluster: ClusterIdentity,
    /// Where the shared volume is.
    pub layout: Layout,
    /// How the agent and the view come into the pod.
    #[serde(default, skip_serializing_if = "is_default")]
    pub install: Install,
    /// The Flux installation.
    pub view: View,
    /// Who Flux runs as.
    pub user: FluxUser,
    /// How brokers find each other.
    pub network: Network,
    /// Options and configuration of every broker.
    pub broker: Broker,
    /// What a worker does when its broker ends.
    pub worker: WorkerPolicy,
    /// What the lead runs once the quorum is there.
    pub workload: Workload,
    /// How much is said.
    pub logging: Logging,
    /// How much time an end may take, and when it comes by itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shutdown: Shutdown,
    /// Scripts of the user that run at given points.
    #[serde(default)]
    pub hooks: Hooks,
    /// State to restore from and to dump to.
    pub archive: Option<Archive>,
    /// How the lead's agent counts the pods that the queue needs, where the operator asks for it.
    pub autoscale: Option<Autoscale>,
    /// How the lead's agent serves the API of the instance, where that is asked for (`flux.rest`).
    pub rest: Option<Rest>,
    /// True: a munge key is mounted at [`crate::MUNGE_MOUNT`], for the agent to install (`flux.mungeSecret`).
    #[serde(default, skip_serializing_if = "is_default")]
    pub munge: bool,
    /// Lines for `flux-view.sh`, by variable name (`flux.environment`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// CPUs that a kubelet with a static CPU manager gives to the runner alone; absent where it gives none.
    pub exclusive_cpus: Option<u32>,
    /// True: an instance of this Job has its command in the archive, and is not given it again when it is resumed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub submitted: bool,
    /// How many of the lead's pods, from the first on, have ended before their runner was started: they have run no
    /// command.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unstarted_leads: u32,
    /// Containers beside the runner that the agent starts, by container name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sidecars: BTreeMap<String, SidecarConfig>,
}

/// Which MiniCluster a pod belongs to.
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

/// Who Flux runs as when the container starts as root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FluxUser {
    /// Account name; an account of that name in the image is used as it is.
    pub name: String,
    /// uid and gid of the account if it has to be made.
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
    /// Address of the lead's Service, to which workers connect; where there is none, they connect by name.
    pub lead_address: Option<IpAddr>,
    /// Hosts in rank order and who among them is the lead.
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
        /// Host name or address at which the lead is reached from here.
        lead: String,
        /// Port at which the lead is reached from here.
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
    /// How many brokers must be there before the command runs, when fewer than all hosts.
    pub quorum: Option<u32>,
    /// `tbon.connect_timeout` in Flux Standard Duration; absent: Flux's own default.
    pub connect_timeout: Option<String>,
    /// `tbon.topo`; absent: flat.
    pub topology: Option<String>,
    /// `log-stderr-level`, 0 to 7.
    pub log_level: u8,
    /// True: the broker listens at [`Layout::local_socket`] for everybody in the pod.
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

/// What a worker does when its broker ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerPolicy {
    /// Leave when the broker ended with 0 because the lead ends the instance, start again otherwise.
    LeaveWhenDone,
    /// Leave whatever the broker's exit code is (`flux.completeWorkers`).
    LeaveAlways,
    /// Start again even after a clean end: the lead may be run again (`backoffLimit`).
    Rejoin,
}

/// What the lead runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "kebab-case")]
pub enum Workload {
    /// Nothing: the broker stays up until it is shut down. A command is submitted once.
    Interactive {
        /// Submitted when the quorum is there, without waiting for its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        submission: Option<Submission>,
    },
    /// `flux run`, or `flux submit --watch` for several jobs: the instance ends with the command.
    Submit {
        /// What is submitted.
        submission: Submission,
    },
    /// The command is the instance's initial program and launches Flux jobs itself.
    Launcher {
        /// Goes before the command (`commands.prefix`).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        prefix: Vec<String>,
        /// Program and arguments.
        command: Vec<String>,
        /// Content of [`CUSTOM_SCRIPT_PATH`](crate::CUSTOM_SCRIPT_PATH) (`commands.script`); the command then runs it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        script: Option<String>,
    },
    /// The lines are written to a script that `flux batch` runs.
    Batch {
        /// Goes before the batch program (`commands.prefix`).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        prefix: Vec<String>,
        /// Node, task and option flags.
        flags: Vec<String>,
        /// The script, complete with its first line.
        script: String,
        /// Directory of the jobs' output files (`logs`).
        output_directory: String,
    },
    /// `diagnostics: true`: when the quorum is there, the lead says how the instance stands in place of the
    /// command, and then sleeps until the pod is deleted, so that a person can look around.
    Diagnostics {},
}

impl Workload {
    /// True where people end the instance, not a command.
    pub const fn is_interactive(&self) -> bool {
        matches!(self, Self::Interactive { .. } | Self::Diagnostics {})
    }
}

/// Whether a field is at its default, and so is left out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A command and the flags of its submission.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// Goes before the submit program (`commands.prefix`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefix: Vec<String>,
    /// The submit program: `flux submit` unless `flux.submitCommand` says otherwise.
    pub submit: Vec<String>,
    /// Node, task and option flags.
    pub flags: Vec<String>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Content of [`CUSTOM_SCRIPT_PATH`](crate::CUSTOM_SCRIPT_PATH) (`commands.script`); the command then runs it.
    pub script: Option<String>,
}

/// How much is said, and how strictly failures are taken.
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

/// How much time an end may take, and when it comes by itself.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Shutdown {
    /// Seconds in which everything happens that a stop does: the pod's `terminationGracePeriodSeconds`.
    #[serde(skip_serializing_if = "is_default_grace_seconds")]
    pub grace_seconds: u64,
    /// Seconds from the start of the agent in the pod of index 0 after which that agent ends the run.
    /// Absent: it runs as long as it takes. Read again while the run goes on.
    pub deadline_seconds: Option<u64>,
}

impl Shutdown {
    /// The grace period that Kubernetes gives a pod that asks for none.
    pub const DEFAULT_GRACE_SECONDS: u64 = 30;

    /// This section of the document `text`, whatever else is in that; `None` where it cannot be read.
    pub fn of_document(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Part {
            /// A document that was cut off has none.
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
        Self { grace_seconds: Self::DEFAULT_GRACE_SECONDS, deadline_seconds: None }
    }
}

/// How the lead's agent counts the pods that the queue needs. Read again while the run goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Autoscale {
    /// Pods that there may be at most: what a job needs beyond that, it never gets.
    pub max_size: u32,
    /// For how long a pod is kept that no job needs, in seconds.
    pub idle_seconds: u64,
}

impl Autoscale {
    /// This section of the document `text`; `None` where there is none, or it cannot be read.
    pub fn of_document(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Part {
            autoscale: Option<Autoscale>,
        }
        toml::from_str(text).ok().and_then(|part: Part| part.autoscale)
    }
}

/// How the lead's agent serves the API of the instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rest {
    /// Port of the pod.
    pub port: u16,
    /// [`crate::token::fingerprint`] of the token that each request has to bring.
    pub token_sha256: String,
}

/// Whether to leave out a grace period that is Kubernetes' own.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_default_grace_seconds(seconds: &u64) -> bool {
    *seconds == Shutdown::DEFAULT_GRACE_SECONDS
}

/// Scripts of the user, run by the container's `sh`; what they export or cd to carries over.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    /// File restored from if it exists, and dumped to at the end.
    pub path: String,
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

/// The version alone, so that another version is named as such and not as an unknown field.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every field, as the first release writes it. It is never changed: a new field has a default, and is not
    /// written at its default.
    const GOLDEN: &str = include_str!("../tests/golden/agent.toml");

    /// A document in which what has a default is at its default.
    fn hello() -> AgentConfig {
        AgentConfig {
            install: Install::default(),
            shutdown: Shutdown::default(),
            ..AgentConfig::from_toml(GOLDEN).unwrap()
        }
    }

    /// A new field without a default cannot be read; one that is not left out at its default is written
    /// where no agent of that release knows it.
    #[test]
    fn a_document_of_the_first_release_is_read_and_written_again_to_the_byte() {
        assert_eq!(AgentConfig::from_toml(GOLDEN).unwrap().to_toml().unwrap(), GOLDEN);
    }

    #[test]
    fn an_unknown_field_is_refused_by_name() {
        let text = hello().to_toml().unwrap().replace("[logging]", "[logging]\nshout = true");
        let error = AgentConfig::from_toml(&text).unwrap_err();
        assert!(std::error::Error::source(&error).unwrap().to_string().contains("shout"));
    }

    #[test]
    fn what_is_at_its_default_is_left_out_and_anything_else_survives_the_round_trip() {
        let text = hello().to_toml().unwrap();
        for name in ["install", "shutdown", "autoscale"] {
            assert!(!text.contains(name), "{name}: {text}");
        }
        let shutdown = |grace_seconds, deadline_seconds| AgentConfig {
            shutdown: Shutdown { grace_seconds, deadline_seconds },
            ..hello()
        };
        let autoscale = Some(Autoscale { max_size: 9, idle_seconds: 60 });
        for config in [
            AgentConfig { install: Install::Image, ..hello() },
            shutdown(600, None),
            shutdown(30, Some(5)),
            shutdown(0, Some(1)),
            AgentConfig { autoscale, ..hello() },
        ] {
            let text = config.to_toml().unwrap();
            assert_eq!(AgentConfig::from_toml(&text).unwrap(), config);
            // A newer operator may write fields that the agent of a pod does not know.
            let newer = format!("newer = 1\n{text}");
            assert!(AgentConfig::from_toml(&newer).is_err());
            assert_eq!(Shutdown::of_document(&newer), Some(config.shutdown));
            assert_eq!(Autoscale::of_document(&newer), config.autoscale);
        }
        assert_eq!((Shutdown::of_document(""), Autoscale::of_document("no TOML")), (None, None));
    }

    #[test]
    fn another_version_is_refused_as_a_version() {
        let text = hello().to_toml().unwrap().replace("version = 1", "version = 2\nnews = 1");
        let error = AgentConfig::from_toml(&text).unwrap_err().to_string();
        assert!(error.contains("version 2"), "{error}");
    }
}
