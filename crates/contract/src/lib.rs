//! The protocol between the operator and the agent. The operator decides everything that follows from the specification,
//! and writes it as an [`AgentConfig`] into a `ConfigMap`. The agent reads the document in the pod and adds the facts of
//! the pod (host name, uid, cores, addresses). Neither side computes the facts of the other.
//!
//! The crate depends neither on types of Kubernetes nor on processes. Formats of Flux, as a hostlist, are in
//! `flux_protocol`. Operator and agent may be of different releases, so a change of a type here changes the protocol:
//! raise [`AgentConfig::VERSION`] if an older agent could misread the document.

mod agent_config;
pub mod demand;
mod domain;
mod exit;
pub mod instance;
pub mod invocation;
mod layout;
mod names;
pub mod obstacle;
pub mod phase;
mod served;
mod shell;
mod termination;
pub mod token;
mod workload;

pub use agent_config::{
    AgentConfig, Archive, Autoscale, Bootstrap, Broker, ClusterIdentity, ConfigError, FluxUser,
    Hooks, Install, Logging, Network, Rest, RestTokens, Shutdown, SidecarConfig, View,
    WorkerPolicy,
};
pub use domain::cluster_domain;
pub use exit::Exit;
pub use layout::{
    AGENT_CONFIG_PATH, AGENT_MOUNT, CONFIG_MOUNT, CURVE_MOUNT, CURVE_SECRET_KEY,
    CUSTOM_SCRIPT_PATH, DEFAULT_OUTPUT_DIRECTORY, INSTALL_MOUNT, Layout, MUNGE_MOUNT,
    MUNGE_SECRET_KEY, PRIVATE_MOUNT, REST_READ_ONLY_KEY, REST_SECRET_KEY, REST_TLS_MOUNT,
    TLS_SECRET_KEYS, VIEW_MOUNT,
};
pub use names::{ClusterName, NameError, labels};
pub use served::{ServedInstance, ServedTokens};
pub use shell::{is_shell_name, shell_syntax};
pub use termination::{FailedTask, JobNumbers, Phase, TerminationMessage};
pub use workload::{Submission, Workload};

/// Port of the Flux overlay network (TBON) on the lead broker, as the Go operator had it.
pub const OVERLAY_PORT: u16 = 8050;
