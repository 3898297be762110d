//! Writes what a [`Plan`](super::decide::Plan) says. Nothing is decided here.
//!
//! A create is a POST, which fails where somebody else has the name; any other write is a merge
//! patch with the uid and the resource version of what was read. So an object that is not ours is
//! never written to, however short the time between the read and the write.
//!
//! It is no server-side apply: that creates what is not there, whoever has just taken the name, and
//! it takes away only what an earlier apply has brought, not what a POST has: a port that went would
//! stay. A merge patch replaces lists, and leaves all else that others have added.

pub(super) mod events;
pub(super) mod report;
pub(super) mod unfinished_jobs;

use super::context::FIELD_MANAGER;
use super::decide::Writes;
use super::decide::change::Change;
use super::error::Error;
use super::observe::Live;
use super::observe::cached_client::CachedClient;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;

/// A kind that is written here.
pub(super) trait Object:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
{
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
{
}

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
    if let Some(secret) = &writes.secret {
        // Where it is there it is not written again: the brokers that have read it could not talk to
        // those that read another. Its name says whose it is and of which run, so it is not read
        // either: the operator has no right to.
        let secret = secret.expose();
        post(&client.api::<Secret>(), &secret.name_any(), &json!(secret)).await?;
    }
    apply_if_changed(client, &writes.services_pod, &mut live.services_pod).await?;
    apply_if_changed(client, &writes.config_map, &mut live.config_map).await?;
    for sidecar in &writes.sidecars {
        apply_service(client, sidecar, live).await?;
    }
    apply_if_changed(client, &writes.gang.coscheduling, &mut None).await?;
    apply_if_changed(client, &writes.gang.volcano, &mut None).await?;
    for alias in &writes.aliases {
        match apply_service(client, alias, live).await {
            // Somebody has just taken it: it is left to them.
            Err(Error::NameTaken { name, .. } | Error::Predecessor { name, .. }) => {
                live.names_taken.push(name);
            }
            result => result?,
        }
    }
    if let Change::Create(job) = &writes.job {
        live.job = Some(create(client, &**job, &writes.job_document).await?);
        return Ok(());
    }
    apply_if_changed(client, &writes.job, &mut live.job).await
}

/// Labels the lead's pod. One that is gone, or whose name another has, is no failure: the watch brings its successor.
pub(super) async fn label_lead(
    client: &CachedClient<'_>,
    label: Option<&(String, Value)>,
) -> Result<(), Error> {
    let Some((name, patch)) = label else { return Ok(()) };
    let answer = client
        .api::<Pod>()
        .patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    match answer {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(source) => Err(write_error::<Pod>(name, source)),
    }
}

async fn apply_service(
    client: &CachedClient<'_>,
    change: &Change<Service>,
    live: &mut Live,
) -> Result<(), Error> {
    let mut answer = None;
    apply_if_changed(client, change, &mut answer).await?;
    live.services.extend(answer.map(|service| (service.name_any(), service)));
    Ok(())
}

/// Does what `change` says; `live` is then what there is.
pub(super) async fn apply_if_changed<K>(
    client: &CachedClient<'_>,
    change: &Change<K>,
    live: &mut Option<K>,
) -> Result<(), Error>
where
    K: Object,
{
    *live = match change {
        Change::Keep => return Ok(()),
        Change::Create(object) => Some(create(client, &**object, &json!(object)).await?),
        Change::Patch { name, patch } => Some(merge_patch(&client.api(), name, patch).await?),
        Change::Delete { name, uid, version } => {
            delete(&client.api::<K>(), name, uid.clone(), version.clone()).await?;
            None
        }
    };
    Ok(())
}

/// Creates `object` by sending `document`. Where the name is taken, the error says by whom.
async fn create<K>(client: &CachedClient<'_>, object: &K, document: &Value) -> Result<K, Error>
where
    K: Object,
{
    let name = object.name_any();
    if let Some(created) = post(&client.api::<K>(), &name, document).await? {
        return Ok(created);
    }
    let owner = object.owner_references().first().cloned().unwrap_or_default();
    Err(match client.read_owned::<K>(&name, &owner).await? {
        Err(taken) => taken.into(),
        // Ours, or gone again since: what there is has to be read anew.
        Ok(_) => Error::conflict::<K>(name),
    })
}

/// Creates an object; `None` when the name is taken.
async fn post<K>(api: &Api<K>, name: &str, document: &Value) -> Result<Option<K>, Error>
where
    K: Object,
{
    tracing::info!(kind = %K::kind(&()), name, "create");
    match send(api, document).await {
        Ok(created) => Ok(Some(created)),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
        Err(source) => Err(write_error::<K>(name, source)),
    }
}

/// Sends a new object. The API server refuses fields that it does not know: else it would leave them out, and say so
/// in a header.
async fn send<K>(api: &Api<K>, document: &Value) -> Result<K, kube::Error>
where
    K: Object,
{
    let parameters =
        PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let url = Request::new(api.resource_url());
    let request =
        url.create(&parameters, serde_json::to_vec(document).map_err(kube::Error::SerdeError)?);
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    let strict = format!("{}&fieldValidation=Strict", request.uri());
    if let Ok(uri) = strict.parse() {
        *request.uri_mut() = uri;
    }
    api.clone().into_client().request(request).await
}

async fn merge_patch<K>(api: &Api<K>, name: &str, patch: &Value) -> Result<K, Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    tracing::info!(kind = %K::kind(&()), name, "change");
    let parameters =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let answer = api.patch(name, &parameters, &Patch::Merge(patch)).await;
    answer.map_err(|source| {
        if matches!(&source, kube::Error::Api(status) if status.is_not_found()) {
            // It has gone since it was read.
            return Error::conflict::<K>(name.to_owned());
        }
        write_error::<K>(name, source)
    })
}

/// Deletes this version of the object with this uid, and no other that has its name.
pub(super) async fn delete<K>(
    api: &Api<K>,
    name: &str,
    uid: Option<String>,
    resource_version: Option<String>,
) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let kind = K::kind(&()).into_owned();
    tracing::info!(kind, name, "delete");
    let parameters = DeleteParams {
        preconditions: Some(Preconditions { uid, resource_version }),
        ..DeleteParams::background()
    };
    match api.delete(name, &parameters).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(kube::Error::Api(status)) if status.is_conflict() => {
            Err(Error::conflict::<K>(name.to_owned()))
        }
        Err(source) => Err(Error::Delete { kind, name: name.to_owned(), source: Box::new(source) }),
    }
}

fn write_error<K: Resource<DynamicType = ()>>(name: &str, source: kube::Error) -> Error {
    let name = name.to_owned();
    if matches!(&source, kube::Error::Api(status) if status.is_conflict()) {
        return Error::conflict::<K>(name);
    }
    Error::Apply { kind: K::kind(&()).into_owned(), name, source: Box::new(source) }
}
