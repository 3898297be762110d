//! The `ConfigMap` with `agent.toml`.

use super::error::{BuildError, SIZE_LIMIT};
use super::meta::object_meta;
use crate::cluster::Cluster;
use flux_contract::AgentConfig;
use k8s_openapi::api::core::v1::ConfigMap;
use std::collections::BTreeMap;

/// Key of the agent's configuration: the file name of [`flux_contract::AGENT_CONFIG_PATH`].
pub const AGENT_CONFIG_KEY: &str = "agent.toml";

/// The `ConfigMap` that tells the agents what to do. It holds no secret.
pub(super) fn config_map(cluster: &Cluster, config: &AgentConfig) -> Result<ConfigMap, BuildError> {
    let text = config.to_toml().map_err(BuildError::AgentConfig)?;
    if text.len() > SIZE_LIMIT {
        return Err(BuildError::Size(text.len()));
    }
    Ok(ConfigMap {
        metadata: object_meta(cluster, &cluster.name.agent_config_map()),
        data: Some(BTreeMap::from([(AGENT_CONFIG_KEY.to_owned(), text)])),
        ..ConfigMap::default()
    })
}
