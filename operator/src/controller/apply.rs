//! Writes objects, when they differ from what there is.

use super::build::{Applied, Desired, Prepared, Services};
use super::error::Error;
use super::job_change::JobChange;
use super::observe::ours;
use crate::cluster::Cluster;
use flux_contract::Redacted;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::net::IpAddr;

/// The operator's name as an owner of fields.
pub const FIELD_MANAGER: &str = "flux-operator";

/// The objects that were read before it was decided what they should be.
#[derive(Debug, Clone, Default)]
pub struct Live {
    /// Holds what the running instance was started with.
    pub config_map: Option<ConfigMap>,
    /// The Job.
    pub job: Option<Job>,
}

/// Applies the Services; the answer is the address of the lead's.
pub(super) async fn services(
    client: &Client,
    cluster: &Cluster,
    services: &Services,
) -> Result<Option<IpAddr>, Error> {
    let Services { headless, lead } = services;
    let (_, lead) =
        futures::try_join!(settle(client, cluster, headless), settle(client, cluster, lead))?;
    let address = lead.spec.and_then(|spec| spec.cluster_ip);
    Ok(address.and_then(|address| address.parse().ok()))
}

/// Creates the Secret unless it is there. It is never written again: the brokers that have read it
/// could not talk to those that read another.
pub(super) async fn secret(
    client: &Client,
    cluster: &Cluster,
    secret: &Redacted<Secret>,
) -> Result<(), Error> {
    let secret = secret.expose();
    let api: Api<Secret> = Api::namespaced(client.clone(), &cluster.namespace);
    let name = secret.name_any();
    let parameters =
        PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match api.create(&parameters, secret).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            ours(&api, &name, &cluster.owner).await.map(|_| ())
        }
        Err(source) => Err(write_error::<Secret>(&name, source)),
    }
}

/// Applies what the pods need, then the Job as `change` says.
pub(super) async fn desired(
    client: &Client,
    cluster: &Cluster,
    desired: Desired<Prepared>,
    live: Live,
    change: &JobChange,
) -> Result<Desired<Applied>, Error> {
    let Desired { config_map, sidecar_services, job, state: PhantomData } = desired;
    let config_map = bring(client, cluster, live.config_map, &config_map).await?;
    let mut services = Vec::with_capacity(sidecar_services.len());
    for service in &sidecar_services {
        services.push(settle::<Service>(client, cluster, service).await?);
    }
    let job = match change {
        JobChange::Create => write(client, cluster, &job).await?,
        JobChange::Adjust(patch) | JobChange::Refuse { adjust: Some(patch), .. } => {
            adjust(client, cluster, patch).await?
        }
        JobChange::Keep | JobChange::Refuse { adjust: None, .. } => live.job.unwrap_or(job),
    };
    Ok(Desired { config_map, sidecar_services: services, job, state: PhantomData })
}

/// Reads an object and brings it in line with `desired`.
async fn settle<K>(client: &Client, cluster: &Cluster, desired: &K) -> Result<K, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), &cluster.namespace);
    let live = ours(&api, &desired.name_any(), &cluster.owner).await?;
    bring(client, cluster, live, desired).await
}

/// Brings `live` in line with `desired`; writes only if something of it is missing or other.
async fn bring<K>(
    client: &Client,
    cluster: &Cluster,
    live: Option<K>,
    desired: &K,
) -> Result<K, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    match live {
        Some(live) if carries(&to_value(&live), &to_value(desired)) => Ok(live),
        Some(_) | None => write(client, cluster, desired).await,
    }
}

/// Server-side apply.
async fn write<K>(client: &Client, cluster: &Cluster, desired: &K) -> Result<K, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), &cluster.namespace);
    let name = desired.name_any();
    tracing::info!(kind = %K::kind(&()), %name, "apply");
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    api.patch(&name, &parameters, &Patch::Apply(desired))
        .await
        .map_err(|source| write_error::<K>(&name, source))
}

/// Merge patch of the Job: an apply would have to repeat the template, which must not differ.
async fn adjust(client: &Client, cluster: &Cluster, patch: &Value) -> Result<Job, Error> {
    let api: Api<Job> = Api::namespaced(client.clone(), &cluster.namespace);
    let name = cluster.name.as_str();
    tracing::info!(kind = "Job", name, %patch, "adjust");
    let parameters =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    api.patch(name, &parameters, &Patch::Merge(patch))
        .await
        .map_err(|source| write_error::<Job>(name, source))
}

fn write_error<K: Resource<DynamicType = ()>>(name: &str, source: kube::Error) -> Error {
    Error::Apply {
        kind: K::kind(&()).into_owned(),
        name: name.to_owned(),
        source: Box::new(source),
    }
}

fn to_value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// True when everything `desired` says is also said by `live`, which may say more.
fn carries(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => desired.iter().all(|(key, desired)| {
            live.get(key).map_or_else(|| desired.is_null(), |live| carries(live, desired))
        }),
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len()
                && live.iter().zip(desired).all(|(live, desired)| carries(live, desired))
        }
        (live, desired) => live == desired,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_added_by_the_api_server_are_no_difference() {
        let live = json!({ "spec": { "ports": [{ "port": 1, "protocol": "TCP" }], "type": "X" } });
        assert!(carries(&live, &json!({ "spec": { "ports": [{ "port": 1 }] } })));
    }

    #[test]
    fn another_value_a_missing_key_or_a_longer_list_is_a_difference() {
        let live = json!({ "data": { "a": "1" }, "list": [1, 2] });
        assert!(!carries(&live, &json!({ "data": { "a": "2" } })));
        assert!(!carries(&live, &json!({ "data": { "b": "1" } })));
        assert!(!carries(&live, &json!({ "list": [1] })));
    }
}
