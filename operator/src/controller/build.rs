//! From a [`Cluster`] to the Kubernetes objects that are made of it. Nothing here reads or writes.
//!
//! The same cluster gives the same bytes: no clock, no randomness, no unordered map.

mod agent_config;
mod config_map;
mod containers;
mod error;
mod images;
mod job;
mod meta;
mod pod;
mod services;
mod unknown_fields;
mod volumes;

pub use agent_config::agent_config;
pub use config_map::AGENT_CONFIG_KEY;
pub use error::BuildError;
pub use images::Images;
pub(super) use job::KILLED;
pub(super) use meta::meta_of;
pub use services::{Services, services};
pub(super) use unknown_fields::document;

use crate::cluster::{Cluster, Curve};
use flux_contract::{AgentConfig, CURVE_SECRET_KEY, Redacted};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use std::collections::BTreeMap;

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
        config_map: config_map::config_map(cluster, config)?,
        services_pod: pod::services_pod(cluster),
        job: job::job(cluster, images, config.install, generation)?,
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
