//! Writes objects, when they differ from what there is.
//!
//! A create is a POST, which fails where somebody else has the name; any other write is a merge
//! patch with the uid and the resource version of what was read. So an object that is not ours is
//! never written to, however short the time between the look and the write.
//!
//! It is no server-side apply: that creates what is not there, whoever has just taken the name, and
//! it takes away only what an earlier apply has brought, not what a POST has: a port that went would
//! stay. A merge patch replaces lists, and leaves all else that others have added.

use super::build::{Desired, Prepared, Services, SidecarServices};
use super::error::Error;
use super::job_change::JobChange;
use super::observe::{Live, ours};
use crate::cluster::Cluster;
use flux_contract::Redacted;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::net::IpAddr;

/// The operator's name as an owner of fields.
pub const FIELD_MANAGER: &str = "flux-operator";

/// What came of applying.
#[derive(Debug, Clone)]
pub(super) struct Applied {
    /// The Job as the API server answered.
    pub(super) job: Job,
    /// Short names of sidecars' Services that somebody else has.
    pub(super) names_taken: Vec<String>,
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
///
/// Its name says whose it is and of which run, so one that is there is not read: the operator has
/// no right to read Secrets.
pub(super) async fn secret(
    client: &Client,
    cluster: &Cluster,
    secret: &Redacted<Secret>,
) -> Result<(), Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &cluster.namespace);
    post(&api, secret.expose()).await.map(|_| ())
}

/// Creates an object unless it is there; then it must be `owner`'s. The answer is the object as
/// it is in the cluster.
pub(super) async fn create<K>(api: &Api<K>, object: &K, owner: &OwnerReference) -> Result<K, Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    if let Some(created) = post(api, object).await? {
        return Ok(created);
    }
    let name = object.name_any();
    // Gone again since: the next look begins anew.
    let there = ours(api, &name, owner).await?;
    there.ok_or_else(|| Error::Conflict { kind: K::kind(&()).into_owned(), name })
}

/// Creates an object; `None` when the name is taken.
async fn post<K>(api: &Api<K>, object: &K) -> Result<Option<K>, Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let name = object.name_any();
    tracing::info!(kind = %K::kind(&()), %name, "create");
    let parameters =
        PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match api.create(&parameters, object).await {
        Ok(created) => Ok(Some(created)),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
        Err(source) => Err(write_error::<K>(&name, source)),
    }
}

/// Deletes an object, and no other that has its name.
pub(super) async fn delete<K>(api: &Api<K>, object: &K) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let name = object.name_any();
    let parameters = DeleteParams {
        preconditions: Some(Preconditions { uid: object.uid(), resource_version: None }),
        ..DeleteParams::background()
    };
    match api.delete(&name, &parameters).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(source) => {
            Err(Error::Delete { kind: K::kind(&()).into_owned(), name, source: Box::new(source) })
        }
    }
}

/// Applies what the pods need, then the Job as `change` says.
pub(super) async fn desired(
    client: &Client,
    cluster: &Cluster,
    desired: Desired<Prepared>,
    live: Live,
    change: &JobChange,
) -> Result<Applied, Error> {
    let Desired { config_map, sidecar_services, services_pod: _, job, state: PhantomData } =
        desired;
    bring(client, cluster, live.config_map, &config_map).await?;
    let mut names_taken = Vec::new();
    for SidecarServices { own, alias } in sidecar_services {
        settle(client, cluster, &own).await?;
        names_taken.extend(offer(client, cluster, &alias).await?);
    }
    let jobs = Api::namespaced(client.clone(), &cluster.namespace);
    let job = match change {
        JobChange::Create => create(&jobs, &job, &cluster.owner).await?,
        JobChange::Adjust(patch) => {
            // A Job's template is not applied again: it must not differ, and may.
            merge(&jobs, &live.job.unwrap_or(job), patch).await?
        }
        JobChange::Keep => live.job.unwrap_or(job),
    };
    Ok(Applied { job, names_taken })
}

/// Applies a Service under a name that may be somebody else's; then it is left to them, and the
/// answer is that name.
async fn offer(
    client: &Client,
    cluster: &Cluster,
    alias: &Service,
) -> Result<Option<String>, Error> {
    match settle(client, cluster, alias).await {
        Err(Error::NameTaken { name, .. } | Error::Predecessor { name, .. }) => Ok(Some(name)),
        result => result.map(|_| None),
    }
}

/// A kind of object that is read, compared and applied in a namespace.
trait Written:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
{
}

impl<K> Written for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
{
}

/// Reads an object and brings it in line with `desired`.
async fn settle<K: Written>(client: &Client, cluster: &Cluster, desired: &K) -> Result<K, Error> {
    let api: Api<K> = Api::namespaced(client.clone(), &cluster.namespace);
    let live = ours(&api, &desired.name_any(), &cluster.owner).await?;
    bring(client, cluster, live, desired).await
}

/// Brings `live` in line with `desired`: creates what is not there, writes only if something of it
/// is missing or other.
async fn bring<K: Written>(
    client: &Client,
    cluster: &Cluster,
    live: Option<K>,
    desired: &K,
) -> Result<K, Error> {
    let api: Api<K> = Api::namespaced(client.clone(), &cluster.namespace);
    let live = match live {
        Some(live) => live,
        None => create(&api, desired, &cluster.owner).await?,
    };
    if carries(&to_value(&live), &to_value(desired)) {
        return Ok(live);
    }
    merge(&api, &live, &to_value(desired)).await
}

/// Merge patch of `live`, and of no other object that has got its name since.
pub(super) async fn merge<K>(api: &Api<K>, live: &K, patch: &Value) -> Result<K, Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let name = live.name_any();
    tracing::info!(kind = %K::kind(&()), name, "change");
    let mut patch = patch.clone();
    patch["metadata"]["uid"] = json!(live.uid());
    patch["metadata"]["resourceVersion"] = json!(live.resource_version());
    let parameters =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    api.patch(&name, &parameters, &Patch::Merge(patch))
        .await
        .map_err(|source| write_error::<K>(&name, source))
}

fn write_error<K: Resource<DynamicType = ()>>(name: &str, source: kube::Error) -> Error {
    let (kind, name) = (K::kind(&()).into_owned(), name.to_owned());
    if matches!(&source, kube::Error::Api(status) if status.is_conflict()) {
        return Error::Conflict { kind, name };
    }
    Error::Apply { kind, name, source: Box::new(source) }
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
