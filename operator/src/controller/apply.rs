//! Writes the [`Writes`] of a plan to the API server, without a decision of its own.
//!
//! A create is a POST, which fails if another object has the name. Every other write is a merge patch with the uid
//! and the resource version that were read. So the operator never writes to an object of somebody else.
//!
//! Server-side apply would not do: it also creates an object under a name that somebody else has just taken, and it
//! removes only fields of an earlier apply, not those of a POST, so that a removed port would stay. A merge patch
//! replaces lists and keeps fields that others have added.

use super::context::FIELD_MANAGER;
use super::decide::change::Change;
use super::decide::{Writes, address};
use super::error::{Error, Verb};
use super::observe::Applied;
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

/// Writes all of `writes`, in order, and adds to `applied` what the API server returns.
pub(super) async fn apply(
    client: &CachedClient<'_>,
    writes: &Writes,
    applied: &mut Applied,
) -> Result<(), Error> {
    let mut lead = None;
    for service in &writes.services {
        lead = apply_if_changed(&client.objects(), service).await?.as_ref().and_then(address);
    }
    for secret in &writes.secrets {
        // An existing Secret stays: brokers that have read it could not talk to those that read another one. Its name
        // has the MiniCluster and the run, so the operator need not read it, and has no right to.
        let secret = secret.expose();
        post(&client.objects(), secret).await?;
    }
    applied.services_pod = apply_if_changed(&client.objects(), &writes.services_pod).await?;
    apply_if_changed(&client.objects(), &writes.held_pod).await?;
    let config_map = writes.config_map.clone();
    let config_map = lead.into_iter().fold(config_map, Change::with_lead_address);
    applied.config_map = apply_if_changed(&client.objects(), &config_map).await?;
    for service in &writes.exposed {
        apply_if_changed(&client.objects(), service).await?;
    }
    if let Some((scheduler, change)) = &writes.pod_group {
        apply_if_changed(&pod_groups(*scheduler, client), change).await?;
    }
    for alias in &writes.aliases {
        apply_alias(client, alias, applied).await?;
    }
    applied.job = apply_if_changed(&client.objects(), &writes.job).await?;
    Ok(())
}

async fn apply_alias(
    client: &CachedClient<'_>,
    alias: &Change<Service>,
    applied: &mut Applied,
) -> Result<(), Error> {
    match apply_if_changed(&client.objects(), alias).await {
        // The patch has removed the owner, so the watch no longer brings this Service.
        Ok(Some(service)) if controller_of(&service, MINI_CLUSTER).is_none() => {
            applied.alias_conflicts.push(service.name_any());
        }
        Ok(_) => {}
        // Somebody has just created a Service of this name.
        Err(Error::NameConflict(conflict)) => applied.alias_conflicts.push(conflict.into_name()),
        // The run works without the alias.
        Err(error @ Error::Request(..)) => applied.refused_aliases.push(error.chain()),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Writes the change; returns the object as it is afterwards, if it was created or changed.
pub(super) async fn apply_if_changed<K>(
    objects: &Objects<K>,
    change: &Change<K>,
) -> Result<Option<K>, Error>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    match change {
        Change::Keep => Ok(None),
        Change::Create(object) => create(objects, &**object).await.map(Some),
        Change::Patch { name, patch } => merge_patch(objects, name, patch).await.map(Some),
        Change::Delete { name, uid, version } => {
            delete(objects, name, uid.clone(), version.clone()).await.map(|()| None)
        }
    }
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
