//! Why the objects of a cluster cannot be built.

use flux_contract::ConfigError;

/// Most bytes in a `ConfigMap` (Kubernetes, `MaxSecretSize`).
pub(super) const SIZE_LIMIT: usize = 1 << 20;

/// Why the objects of a cluster cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The agent's configuration has a value TOML cannot express.
    #[error("write the agent's configuration")]
    AgentConfig(#[source] ConfigError),
    /// The agent's configuration fits no `ConfigMap`.
    #[error("the agents' configuration has {0} bytes, at most {limit} fit a ConfigMap: put scripts into a ConfigMap of your own and mount it", limit = SIZE_LIMIT)]
    Size(usize),
    /// The user's patch is not one of a `PodSpec`.
    #[error("apply the overlay of the pod specification")]
    Overlay(#[source] serde_json::Error),
}
