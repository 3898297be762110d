//! What `flux-agent serve`, which knows the pod, passes on to `flux-rest`, which knows the instance alone.

use crate::termination::Phase;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The only argument of `flux-rest`, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServedInstance {
    /// Name of the MiniCluster.
    pub cluster: String,
    /// The broker's socket.
    pub broker: PathBuf,
    /// The file in which PID 1 reports its progress.
    pub agent: PathBuf,
    /// The phases that were over before `flux-agent` became Flux's user, who may not be allowed to read that file.
    pub timeline: Vec<Phase>,
    /// The users of the container, as passwd(5).
    pub users: PathBuf,
    /// The soft limits of a job's processes. -1 stands for no limit.
    pub limits: BTreeMap<String, i64>,
    /// Whether the validators of Flux check each job, because the user has configured that.
    pub validated: bool,
    /// The address to listen at.
    pub listen: SocketAddr,
    /// Which tokens are accepted.
    pub tokens: ServedTokens,
    /// The directory of the certificate and its key ([`crate::TLS_SECRET_KEYS`]), which may be replaced. Without it
    /// nothing is encrypted.
    pub tls: Option<PathBuf>,
    /// Whether `flux-rest` ends when its standard input does.
    pub until_input_ends: bool,
}

/// Which tokens `flux-rest` accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ServedTokens {
    /// One that `flux-rest` makes and prints. It may do everything.
    New,
    /// The one with this SHA-256, in hexadecimal digits. It may do everything.
    Sha256(String),
    /// Those whose fingerprints are in this `agent.toml`, which may be replaced.
    Config(PathBuf),
}
