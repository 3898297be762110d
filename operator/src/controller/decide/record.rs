//! Changes of the agents' `ConfigMap`: the record of a run, and the key that lets its pods start.

use super::change::Change;
use crate::controller::job_ext::noted_generation;
use crate::controller::run_record::{RECORD_ANNOTATION, RunRecord};
use flux_api::cluster::{FixedFields, Identity, RUN_KEY};
use flux_api::objects::{AGENT_CONFIG_KEY, meta_of};
use flux_contract::{AgentConfig, Bootstrap};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Writes `run` and the key that lets its pods start into the `ConfigMap`, if they are missing. If the `ConfigMap` is
/// gone, creates one with only the record, but only for a run that has ended or that another operator started.
pub(crate) fn record(
    identity: &Identity,
    job: Option<&Job>,
    config_map: Option<&ConfigMap>,
    run: &RunRecord,
) -> Change<ConfigMap> {
    let annotations = json!({ RECORD_ANNOTATION: json!(run).to_string() });
    let Some(live) = config_map else {
        let is_ours = job.is_some_and(|job| noted_generation(job).is_some());
        if is_ours && run.end.is_none() {
            return Change::Keep;
        }
        let mut metadata = meta_of(identity, &identity.name.agent_config_map());
        metadata.annotations = serde_json::from_value(annotations).ok();
        return Change::Create(Box::new(ConfigMap { metadata, ..ConfigMap::default() }));
    };
    let uid = &identity.owner.uid;
    let key = job.and_then(|job| FixedFields::noted_run_key(job.annotations(), uid));
    let mut change = json!({ "metadata": { "annotations": annotations } });
    if let Some(key) = key {
        change["data"][key] = json!("");
    }
    Change::merge(live, change)
}

/// Changes the live `ConfigMap` to `desired`. Without a Job, removes the keys of earlier runs. A `ConfigMap` that
/// `awaits_address` of a new Service is written in any case.
pub(crate) fn with_its_keys(
    job: Option<&Job>,
    live: Option<&ConfigMap>,
    desired: ConfigMap,
    awaits_address: bool,
) -> Change<ConfigMap> {
    let Some(live) = live else { return Change::Create(Box::new(desired)) };
    let mut desired = json!(desired);
    if job.is_none() {
        let keys = live.data.iter().flat_map(BTreeMap::keys).filter(|key| key.starts_with(RUN_KEY));
        for key in keys {
            desired["data"][key] = Value::Null;
        }
    }
    if awaits_address { Change::overwrite(live, desired) } else { Change::merge(live, desired) }
}

impl Change<ConfigMap> {
    /// The same change, with the address that the API server chose when it created the lead's Service. If another
    /// cluster has the lead, no pod is behind that Service, and the agents need no address.
    pub(crate) fn with_lead_address(mut self, address: IpAddr) -> Self {
        let text = match &mut self {
            Self::Create(object) => {
                object.data.as_mut().and_then(|data| data.get_mut(AGENT_CONFIG_KEY))
            }
            Self::Patch { patch, .. } => match patch.pointer_mut("/data/agent.toml") {
                Some(Value::String(text)) => Some(text),
                _ => None,
            },
            Self::Keep | Self::Delete { .. } => None,
        };
        if let Some(text) = text
            && let Ok(mut config) = AgentConfig::from_toml(text)
            && matches!(config.network.bootstrap, Bootstrap::Root { .. })
        {
            config.network.lead_address = Some(address);
            if let Ok(changed) = config.to_toml() {
                *text = changed;
            }
        }
        self
    }
}
