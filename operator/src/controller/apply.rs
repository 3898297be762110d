//! Writes what a [`Plan`](super::decide::Plan) says. Nothing is decided here.
//!
//! A create is a POST, which fails where somebody else has the name; any other write is a merge
//! patch with the uid and the resource version of what was read. So an object that is not ours is
//! never written to, however short the time between the read and the write.
//!
//! It is no server-side apply: that creates what is not there, whoever has just taken the name, and
//! it takes away only what an earlier apply has brought, not what a POST has: a port that went would
//! stay. A merge patch replaces lists, and leaves all else that others have added.

use super::context::FIELD_MANAGER;
use super::decide::Writes;
use super::decide::change::Change;
use super::error::{Error, Verb};
use super::observe::Live;
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

/// Writes all of `writes`, in its order. What the API server answers takes the place in `live` of what
/// was read.
pub(super) async fn apply(
    client: &CachedClient<'_>,
    writes: &Writes,
    live: &mut Live,
) -> Result<(), Error> {
    for service in &writes.services {
        apply_service(client, service, live).await?;
    }
    for secret in &writes.secrets {
        // Where it is there it is not written again: the brokers that have read it could not talk to
        // those that read another. Its name says whose it is and of which run, so it is not read
        // either: the operator has no right to.
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
            // Somebody has just taken it: it is left to them.
            Err(Error::NameConflict(conflict)) => live.names_taken.push(conflict.into_name()),
            // The run does not need it.
            Err(error @ Error::Request(..)) => live.names_refused.push(error.chain()),
            result => result?,
        }
        if let Change::Patch { name, .. } = alias
            && live.services.get(name).is_some_and(|it| controller_of(it, MINI_CLUSTER).is_none())
        {
            // It was given up: no watch tells of it any more.
            live.services.remove(name);
            live.names_taken.push(name.clone());
        }
    }
    apply_if_changed(&client.objects(), &writes.job, &mut live.job).await
}

async fn apply_service(
    client: &CachedClient<'_>,
    change: &Change<Service>,
    live: &mut Live,
) -> Result<(), Error> {
    let mut answer = None;
    apply_if_changed(&client.objects(), change, &mut answer).await?;
    live.services.extend(answer.map(|service| (service.name_any(), service)));
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

/// Creates `object`. Where the name is taken, the error says by whom.
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
        // Another MiniCluster with the same headless name has just made it: it is shared when it has been read.
        return Err(objects.conflict(&name));
    }
    // Ours, or gone again since: what there is has to be read anew.
    let taken = objects.read_owned(&name, &owner).await?.err();
    Err(taken.map_or_else(|| objects.conflict(&name), Error::from))
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
        answer => answer.map(Some).map_err(Error::of(Verb::Apply, &objects.kind, &name)),
    }
}

/// Sends a new object. The API server refuses fields that it does not know: else it would leave them out, and say so
/// in a header.
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
        // It has gone since it was read.
        Err(kube::Error::Api(status)) if status.is_not_found() => Err(objects.conflict(name)),
        answer => answer.map_err(Error::of(Verb::Apply, &objects.kind, name)),
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
        answer => answer.map(drop).map_err(Error::of(Verb::Delete, &objects.kind, name)),
    }
}
