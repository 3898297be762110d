//! From a [`Cluster`] to the Kubernetes objects that realise it. Nothing here reads or writes.
//!
//! The same cluster gives the same bytes: no clock, no randomness, no unordered map.

mod affinity;
mod agent_config;
mod config_map;
mod containers;
mod job;
mod meta;
mod pod;
mod services;
mod services_pod;
mod volumes;

pub use agent_config::agent_config;
pub use config_map::AGENT_CONFIG_KEY;
pub(super) use containers::AGENT_CONTAINER;
pub(super) use meta::meta_of;
pub use services::SidecarServices;

use crate::cluster::{Cluster, Curve};
use flux_contract::{AgentConfig, CURVE_SECRET_KEY, ConfigError, Redacted};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::net::IpAddr;

/// The operator's own images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    /// Image of the agent: holds `/flux-agent` and nothing else.
    pub agent: String,
    /// `Always`, `IfNotPresent` or `Never`.
    pub agent_pull_policy: String,
}

/// Why the objects of a cluster cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The agent's configuration has a value TOML cannot express.
    #[error("write the agent's configuration")]
    AgentConfig {
        /// Why.
        #[source]
        source: ConfigError,
    },
    /// The agent's configuration fits no `ConfigMap`.
    #[error("the agents' configuration has {bytes} bytes, at most {limit} fit a ConfigMap: put scripts into a ConfigMap of your own and mount it", limit = config_map::SIZE_LIMIT)]
    Size {
        /// Its size.
        bytes: usize,
    },
    /// The user's patch is not one of a `PodSpec`.
    #[error("apply the overlay of the pod specification")]
    Overlay {
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// The Services that must be there before anything else can be built: one of them has the address
/// that the agents need.
#[derive(Debug, Clone, PartialEq)]
pub struct Services {
    /// Gives the pods their names.
    pub headless: Service,
    /// Gives the lead its address.
    pub lead: Service,
}

/// State of [`Desired`]: built, not yet in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepared;

/// The objects behind the Services. The Secret is not among them: it is created once, by
/// [`secret`], and never compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Desired<State> {
    /// Holds `agent.toml`.
    pub config_map: ConfigMap,
    /// For each sidecar with ports.
    pub sidecar_services: Vec<SidecarServices>,
    /// The services pod, if there is one.
    pub services_pod: Option<Pod>,
    /// The Indexed Job.
    pub job: Job,
    /// Whether this is what we want or what there is.
    pub state: PhantomData<State>,
}

/// The Services in front of the pods.
pub fn services(cluster: &Cluster) -> Services {
    Services { headless: services::headless(cluster), lead: services::lead(cluster) }
}

/// All other objects. `lead_address` is the address of [`Services::lead`]; `generation` is the
/// MiniCluster's.
pub fn build(
    cluster: &Cluster,
    lead_address: Option<IpAddr>,
    images: &Images,
    generation: i64,
) -> Result<Desired<Prepared>, BuildError> {
    Ok(Desired {
        config_map: config_map(cluster, &agent_config(cluster, lead_address))?,
        sidecar_services: services::sidecars(cluster),
        services_pod: services_pod::services_pod(cluster),
        job: job::job(cluster, images, generation)?,
        state: PhantomData,
    })
}

/// The `ConfigMap` with a given configuration of the agents.
pub fn config_map(cluster: &Cluster, config: &AgentConfig) -> Result<ConfigMap, BuildError> {
    config_map::config_map(cluster, config)
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
