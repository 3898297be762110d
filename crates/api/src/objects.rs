//! Builds the Kubernetes objects of a [`Cluster`].
//!
//! Equal clusters give equal bytes: there is no clock, no randomness and no unordered map.

mod agent_config;
mod containers;
mod exclusive;
pub mod gang;
pub mod install;
mod job;
mod meta;
mod overlay;
mod services;
mod volumes;

pub use crate::images::Images;
pub use agent_config::agent_config;
pub use job::{
    BY_SPECIFICATION, GENERATION_ANNOTATION, JOB_ANNOTATIONS_ANNOTATION, JOB_LABELS_ANNOTATION,
    KILLED, SUSPENDED_ANNOTATION, is_replaced, suspend,
};
pub use meta::meta_of;
pub use services::{Services, services};
pub use volumes::AGENT_CONFIG_KEY;

use crate::cluster::{Cluster, Curve};
use anyhow::{Context as _, Result, ensure};
use flux_contract::{AgentConfig, CURVE_SECRET_KEY, REST_READ_ONLY_KEY, REST_SECRET_KEY};
use flux_protocol::{CurveCertificate, Redacted};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use std::collections::BTreeMap;

/// Most bytes in a `ConfigMap` (Kubernetes, `MaxSecretSize`).
const CONFIG_MAP_LIMIT: usize = 1 << 20;

/// The desired objects, without the Services and without the Secret, which is created once and never compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Desired {
    /// The `ConfigMap` with `agent.toml`.
    pub config_map: ConfigMap,
    /// The pod of `spec.services`, if there is one.
    pub services_pod: Option<Pod>,
    /// The Indexed Job.
    pub job: Job,
}

/// Builds the objects of `cluster` at this `generation`, with `config` for the agents.
pub fn build(
    cluster: &Cluster,
    config: &AgentConfig,
    images: &Images,
    generation: i64,
) -> Result<Desired> {
    Ok(Desired {
        config_map: config_map(cluster, config)?,
        services_pod: job::services_pod(cluster),
        job: job::job(cluster, images, config.install, generation)?,
    })
}

/// The `ConfigMap` with the agents' configuration. It has no secret.
fn config_map(cluster: &Cluster, config: &AgentConfig) -> Result<ConfigMap> {
    let text = config.to_toml().context("write the agent's configuration")?;
    let bytes = text.len();
    ensure!(
        bytes <= CONFIG_MAP_LIMIT,
        "the agents' configuration has {bytes} bytes, at most {CONFIG_MAP_LIMIT} fit a ConfigMap: put scripts into a ConfigMap of your own and mount it"
    );
    Ok(ConfigMap {
        metadata: meta::object_meta(cluster, &cluster.name.agent_config_map()),
        data: Some(BTreeMap::from([(AGENT_CONFIG_KEY.to_owned(), text)])),
        ..ConfigMap::default()
    })
}

/// The Secret with the CURVE certificate: the user's, or a new one from the random bytes of `draw`; `None` if the
/// user has an own Secret. It is not in [`Desired`], which may be printed.
pub fn secret(
    cluster: &Cluster,
    draw: impl FnOnce(&mut [u8]) -> Result<(), getrandom::Error>,
) -> Result<Option<Redacted<Secret>>> {
    let text = match &cluster.flux.curve {
        Curve::Secret(_) => return Ok(None),
        Curve::Given(text) => text.clone(),
        Curve::Generate => {
            let mut secret = [0; 32];
            draw(&mut secret).context("draw random numbers for a CURVE key pair")?;
            let certificate = CurveCertificate::new(cluster.name.as_str(), secret);
            certificate.context("make a CURVE certificate")?.to_text()
        }
    };
    Ok(Some(opaque(cluster, &cluster.curve_secret(), [(CURVE_SECRET_KEY, &text)])))
}

/// The two tokens of the API.
#[derive(Debug, Clone)]
pub struct RestTokens {
    /// May do everything.
    pub full: Redacted<String>,
    /// Reads only.
    pub read_only: Redacted<String>,
}

/// The Secret `name` with the tokens of the API.
pub fn rest_secret(cluster: &Cluster, name: &str, tokens: &RestTokens) -> Redacted<Secret> {
    let texts = [(REST_SECRET_KEY, &tokens.full), (REST_READ_ONLY_KEY, &tokens.read_only)];
    opaque(cluster, name, texts)
}

fn opaque<const N: usize>(
    cluster: &Cluster,
    name: &str,
    texts: [(&str, &Redacted<String>); N],
) -> Redacted<Secret> {
    let data = texts.map(|(key, text)| (key.to_owned(), text.expose().clone()));
    Redacted::new(Secret {
        metadata: meta::object_meta(cluster, name),
        type_: Some("Opaque".to_owned()),
        string_data: Some(data.into()),
        ..Secret::default()
    })
}
