//! What the operator and the agent must agree on, and nothing else. The operator decides what the specification
//! determines and writes it down as an [`AgentConfig`] in a `ConfigMap`; the agent reads it in the pod and adds what
//! only the pod can know (host name, uid, cores, addresses). Neither side computes the other's facts.
//!
//! The crate knows nothing of Kubernetes types and nothing of processes. What is Flux's own, as a hostlist, is in
//! `flux_protocol`. A change to a type here
//! is a change of the protocol between two images that may be of different versions: raise
//! [`AgentConfig::VERSION`] when an older agent could misread the document.

mod agent_config;
pub mod demand;
mod domain;
mod exit;
pub mod instance;
pub mod invocation;
mod layout;
mod names;
pub mod phase;
mod served;
mod shell;
mod termination;
pub mod token;

pub use agent_config::{
    AgentConfig, Archive, Autoscale, Bootstrap, Broker, ClusterIdentity, ConfigError, FluxUser,
    Hooks, Install, Logging, Network, Rest, Shutdown, SidecarConfig, Submission, View,
    WorkerPolicy, Workload,
};
pub use domain::cluster_domain;
pub use exit::Exit;
pub use layout::{
    AGENT_CONFIG_PATH, AGENT_MOUNT, CONFIG_MOUNT, CURVE_MOUNT, CURVE_SECRET_KEY,
    CUSTOM_SCRIPT_PATH, DEFAULT_OUTPUT_DIRECTORY, INSTALL_MOUNT, Layout, MUNGE_MOUNT,
    MUNGE_SECRET_KEY, PRIVATE_MOUNT, REST_SECRET_KEY, VIEW_MOUNT,
};
pub use names::{ClusterName, NameError, labels};
pub use served::ServedInstance;
pub use shell::{is_shell_name, shell_syntax};
pub use termination::{FailedTask, Phase, TerminationMessage};

/// Port of the Flux overlay network (TBON) on the lead broker, as the Go operator had it.
pub const OVERLAY_PORT: u16 = 8050;
