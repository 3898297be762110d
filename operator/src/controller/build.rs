//! From a [`Cluster`] to the Kubernetes objects that are made of it. Nothing here reads or writes.
//!
//! The same cluster gives the same bytes: no clock, no randomness, no unordered map.

mod agent_config;
mod containers;
mod images;
mod job;
mod meta;
mod pod;
mod services;
mod unknown_fields;
mod volumes;

pub use agent_config::agent_config;
pub use images::Images;
pub(super) use job::KILLED;
pub(super) use meta::meta_of;
pub use services::{Services, services};
pub(super) use unknown_fields::document;

use crate::cluster::{Cluster, Curve};
use flux_contract::{AgentConfig, CURVE_SECRET_KEY, ConfigError, Redacted};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use std::collections::BTreeMap;

/// Most bytes in a `ConfigMap` (Kubernetes, `MaxSecretSize`).
const SIZE_LIMIT: usize = 1 << 20;

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

/// Key of the agent's configuration: the file name of [`flux_contract::AGENT_CONFIG_PATH`].
pub const AGENT_CONFIG_KEY: &str = "agent.toml";

/// The objects beside the Services. The Secret is not among them: it is created once, by [`secret`],
/// and never compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Desired {
    /// Holds `agent.toml`.
    pub config_map: ConfigMap,
    /// The pod of `spec.services`, if there is one.
    pub services_pod: Option<Pod>,
    /// The Indexed Job.
    pub job: Job,
}

/// All objects but the Services and the Secret. `config` is what the agents are told; `generation`
/// is the MiniCluster's.
pub fn build(
    cluster: &Cluster,
    config: &AgentConfig,
    images: &Images,
    generation: i64,
) -> Result<Desired, BuildError> {
    Ok(Desired {
        config_map: config_map(cluster, config)?,
        services_pod: pod::services_pod(cluster),
        job: job::job(cluster, images, config.install, generation)?,
    })
}

/// The `ConfigMap` that tells the agents what to do. It holds no secret.
fn config_map(cluster: &Cluster, config: &AgentConfig) -> Result<ConfigMap, BuildError> {
    let text = config.to_toml().map_err(BuildError::AgentConfig)?;
    if text.len() > SIZE_LIMIT {
        return Err(BuildError::Size(text.len()));
    }
    Ok(ConfigMap {
        metadata: meta::object_meta(cluster, &cluster.name.agent_config_map()),
        data: Some(BTreeMap::from([(AGENT_CONFIG_KEY.to_owned(), text)])),
        ..ConfigMap::default()
    })
}

/// The Secret with the CURVE certificate `text`; `None` when the user brings an own Secret.
///
/// Kept apart from [`Desired`], which may be shown to people: the value is only exposed in the
/// object that goes to the API server.
pub fn secret(cluster: &Cluster, text: &Redacted<String>) -> Option<Redacted<Secret>> {
    match &cluster.flux.curve {
        Curve::Secret(_) => None,
        Curve::Generate | Curve::Given(_) => Some(Redacted::new(Secret {
            metadata: meta::object_meta(cluster, &cluster.curve_secret()),
            type_: Some("Opaque".to_owned()),
            string_data: Some(BTreeMap::from([(
                CURVE_SECRET_KEY.to_owned(),
                text.expose().clone(),
            )])),
            ..Secret::default()
        })),
    }
}
