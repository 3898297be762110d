//! Renders all objects that an operator would create for a MiniCluster in an empty namespace.

use crate::cluster::Cluster;
use crate::cluster::validate::{Defaults, Violations, validate};
use crate::crd::{Gang, MiniCluster};
use crate::objects::{
    BY_SPECIFICATION, Images, Services, agent_config, build, gang, install, secret, services,
    suspend,
};
use anyhow::{Context as _, Error, Result};
use flux_contract::AgentConfig;
use k8s_openapi::api::core::v1::Service;
use serde::Serialize;
use serde_json::Value;

/// Placeholder for a uid that the API server would choose.
pub const UNKNOWN_UID: &str = "00000000-0000-0000-0000-000000000000";

/// Validates `object` as an operator with these `defaults` does.
pub fn cluster(object: &MiniCluster, defaults: &Defaults) -> Result<Cluster, Violations> {
    let mut object = object.clone();
    object.metadata.uid.get_or_insert_with(|| UNKNOWN_UID.to_owned());
    object.metadata.generation.get_or_insert(1);
    validate(&object, defaults)
}

/// Returns the objects in the order in which the operator creates them. Values that only exist in a cluster are left
/// out: the address of the lead's Service in `agent.toml`, the content of the Secret, and the token of an API with
/// its Secret. All nodes are assumed to mount images, and all gang schedulers to be present.
pub fn render(cluster: &Cluster, images: &Images) -> Result<Vec<Value>> {
    let Services { headless, lead, exposed, aliases } = services(cluster);
    let with_address = |all: Vec<Service>| -> Result<Vec<Value>> {
        all.iter().filter(|_| !cluster.begins_suspended()).map(document).collect()
    };
    let installed = install::choose(cluster, &Ok(()));
    let install = install::method(Some(&installed));
    let config = AgentConfig { install, ..agent_config(cluster, None) };
    let mut desired = build(cluster, &config, images, 1)?;
    let annotations = desired.job.metadata.annotations.get_or_insert_default();
    annotations.extend([install::annotation(&installed)]);
    if cluster.suspend {
        suspend(&mut desired.job, BY_SPECIFICATION.to_owned());
    }
    let mut all = vec![document(&headless)?];
    all.extend(with_address(vec![lead])?);
    all.extend(secret_without_content(cluster)?);
    all.push(document(&desired.config_map)?);
    all.extend(with_address(exposed)?);
    if cluster.gang != Gang::None {
        let template = &desired.job.spec.get_or_insert_default().template;
        let scheduler = gang::choose(cluster.gang, template, &gang::GangScheduler::ALL);
        if let Some(scheduler) = scheduler.map_err(Error::msg)? {
            all.push(document(&gang::join(scheduler, cluster, &mut desired.job))?);
        }
    }
    all.extend(with_address(aliases)?);
    all.push(document(&desired.job)?);
    // The operator creates the pod of `spec.services`, and Services with an address, only while the Job runs.
    if let Some(pod) = desired.services_pod.filter(|_| !cluster.suspend) {
        all.push(document(&pod)?);
    }
    Ok(all)
}

/// The Secret with the CURVE certificate, if the operator creates it.
fn secret_without_content(cluster: &Cluster) -> Result<Option<Value>> {
    let zeros = |bytes: &mut [u8]| {
        bytes.fill(0);
        Ok(())
    };
    let Some(secret) = secret(cluster, zeros)? else { return Ok(None) };
    let mut secret = secret.expose().clone();
    secret.string_data = None;
    document(&secret).map(Some)
}

fn document<K: Serialize>(object: &K) -> Result<Value> {
    serde_json::to_value(object).context("write the object as JSON")
}
