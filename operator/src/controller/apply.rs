//! Writes the [`Writes`] of a plan to the API server, without a decision of its own.
//!
//! A create is a POST, which fails if another object has the name. Every other write is a merge patch with the uid
//! and the resource version that were read. So the operator never writes to an object of somebody else.
//!
//! Server-side apply would not do: it also creates an object under a name that somebody else has just taken, and it
//! removes only fields of an earlier apply, not those of a POST, so that a removed port would stay. A merge patch
//! replaces lists and keeps fields that others have added.

use super::context::FIELD_MANAGER;
use super::decide::Writes;
use super::decide::change::Change;
use super::error::{Error, Verb};
use super::observe::Observed;
use super::observe::cached_client::{CachedClient, Objects};
use super::observe::gang::pod_groups;
use super::observe::stores::{MINI_CLUSTER, controller_of};
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;

/// Writes all of `writes`, in order, and replaces in `live` each object by the one that the API server returns.
pub(super) async fn apply(
    client: &CachedClient<'_>,
    writes: &Writes,
    live: &mut Observed,
) -> Result<(), Error> {
    for service in &writes.services {
        apply_service(client, service, live).await?;
    }
    for secret in &writes.secrets {
        // An existing Secret stays: brokers that have read it could not talk to those that read another one. Its name
        // has the MiniCluster and the run, so the operator need not read it, and has no right to.
        let secret = secret.expose();
        post(&client.objects(), secret).await?;
    }
    apply_if_changed(&client.objects(), &writes.services_pod, &mut live.services_pod).await?;
    apply_if_changed(&client.objects(), &writes.held_pod, &mut None).await?;
    apply_if_changed(&client.objects(), &writes.config_map, &mut live.config_map).await?;
    for service in &writes.exposed {
        apply_service(client, service, live).await?;
    }
    if let Some((scheduler, change)) = &writes.pod_group {
        apply_if_changed(&pod_groups(*scheduler, client), change, &mut None).await?;
    }
    for alias in &writes.aliases {
        match apply_service(client, alias, live).await {
            // Somebody has just created a Service of this name.
            Err(Error::NameConflict(conflict)) => live.alias_conflicts.push(conflict.into_name()),
            // The run works without the alias.
            Err(error @ Error::Request(..)) => live.refused_aliases.push(error.chain()),
            result => result?,
        }
        if let Change::Patch { name, .. } = alias
            && live.services.get(name).is_some_and(|it| controller_of(it, MINI_CLUSTER).is_none())
        {
            // The patch has removed the owner, so the watch no longer brings this Service.
            live.services.remove(name);
            live.alias_conflicts.push(name.clone());
        }
    }
    apply_if_changed(&client.objects(), &writes.job, &mut live.job).await
}

async fn apply_service(
    client: &CachedClient<'_>,
    change: &Change<Service>,
    live: &mut Observed,
) -> Result<(), Error> {
    let mut applied = None;
    apply_if_changed(&client.objects(), change, &mut applied).await?;
    live.services.extend(applied.map(|service| (service.name_any(), service)));
    Ok(())
}

pub(super) async fn apply_if_changed<K>(
    objects: &Objects<K>,
    change: &Change<K>,
    live: &mut Option<K>,
) -> Result<(), Error>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    *live = match change {
        Change::Keep => return Ok(()),
        Change::Create(object) => Some(create(objects, &**object).await?),
        Change::Patch { name, patch } => Some(merge_patch(objects, name, patch).await?),
        Change::Delete { name, uid, version } => {
            delete(objects, name, uid.clone(), version.clone()).await?;
            None
        }
    };
    Ok(())
}

/// Creates `object`. If the name is taken, the error has the kind of its owner.
async fn create<K>(objects: &Objects<K>, object: &K) -> Result<K, Error>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    if let Some(created) = post(objects, object).await? {
        return Ok(created);
    }
    let name = object.name_any();
    let owner = object.owner_references().first().cloned().unwrap_or_default();
    if owner.controller != Some(true) {
        // Another MiniCluster with the same headless name has just created it; the next reconcile reads and shares it.
        return Err(objects.conflict(&name));
    }
    // The object is ours, or was deleted again: the next reconcile reads it.
    let conflict = objects.read_owned(&name, &owner).await?.err();
    Err(conflict.map_or_else(|| objects.conflict(&name), Error::from))
}

/// Creates an object; `None` when the name is taken.
async fn post<K>(objects: &Objects<K>, object: &K) -> Result<Option<K>, Error>
where
    K: Resource + Clone + Serialize + DeserializeOwned,
{
    let name = object.name_any();
    tracing::info!(kind = objects.kind, name, "create");
    match send(&objects.api, object).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
        result => result.map(Some).map_err(Error::of(Verb::Apply, &objects.kind, &name)),
    }
}

/// Sends a new object with strict validation, without which the API server drops unknown fields with a warning.
async fn send<K>(api: &Api<K>, object: &K) -> Result<K, kube::Error>
where
    K: Resource + Clone + Serialize + DeserializeOwned,
{
    let parameters =
        PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let document = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let request = Request::new(api.resource_url()).create(&parameters, document);
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    let strict = format!("{}&fieldValidation=Strict", request.uri());
    if let Ok(uri) = strict.parse() {
        *request.uri_mut() = uri;
    }
    api.clone().into_client().request(request).await
}

async fn merge_patch<K>(objects: &Objects<K>, name: &str, patch: &Value) -> Result<K, Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    tracing::info!(kind = objects.kind, name, "change");
    let parameters =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match objects.api.patch(name, &parameters, &Patch::Merge(patch)).await {
        // The object was deleted after the read.
        Err(kube::Error::Api(status)) if status.is_not_found() => Err(objects.conflict(name)),
        result => result.map_err(Error::of(Verb::Apply, &objects.kind, name)),
    }
}

pub(super) async fn delete<K>(
    objects: &Objects<K>,
    name: &str,
    uid: Option<String>,
    resource_version: Option<String>,
) -> Result<(), Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    tracing::info!(kind = objects.kind, name, "delete");
    let parameters = DeleteParams {
        preconditions: Some(Preconditions { uid, resource_version }),
        ..DeleteParams::background()
    };
    match objects.api.delete(name, &parameters).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        result => result.map(drop).map_err(Error::of(Verb::Delete, &objects.kind, name)),
    }
}
