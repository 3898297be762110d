//! Reads of one reconcile: from the stores of the watches, and from the API server what they lack.
//!
//! Without a Job, the MiniCluster, the Job and the `ConfigMap` are read from the API server, because they decide
//! whether a Job is created. Other objects may be outdated, and every write carries the version that it was decided on.

use super::mini_cluster_cache::{NamespacedName, namespaced_name};
use super::stores::{MiniClusterMeta, Stores, stored};
use crate::controller::context::Context;
use crate::controller::error::{Error, NameConflict, ObjectName, Verb};
use flux_api::cluster::validate::{Violation, Violations};
use flux_api::crd::{MiniCluster, MiniClusterSpec, MiniClusterStatus};
use futures::{Stream, TryStreamExt as _, stream};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ApiResource, DynamicObject, GetParams, ListParams, ObjectList};
use kube::core::{Object, Request};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::{DeserializeOwned, IgnoredAny};
use std::fmt::Debug;

/// Number of pods in one page of a list: others may put a Job's labels on their pods, and a pod takes much memory.
const POD_LIST_PAGE: u32 = 20;

/// Reads from the stores, and from the API server what they do not hold.
pub(crate) struct CachedClient<'context> {
    pub(crate) context: &'context Context,
    /// Empty before the watches begin.
    pub(crate) stores: &'context Stores,
    pub(crate) name: NamespacedName,
}

/// Our object of a name, if it exists, or the conflict with an object of others that has the name.
pub(crate) type Owned<K> = Result<Option<K>, NameConflict>;

/// Access to the objects of one kind in the namespace of a MiniCluster.
pub(crate) struct Objects<K> {
    pub(crate) api: Api<K>,
    pub(crate) kind: String,
}

impl<K> Objects<K> {
    pub(crate) async fn read_owned(
        &self,
        name: &str,
        owner: &OwnerReference,
    ) -> Result<Owned<K>, Error>
    where
        K: Resource + Clone + Debug + DeserializeOwned,
    {
        let found = self.api.get_opt(name).await;
        let Some(object) = found.map_err(Error::of(Verb::Read, &self.kind, name))? else {
            return Ok(Ok(None));
        };
        if is_owned(&object, &owner.uid) {
            return Ok(Ok(Some(object)));
        }
        let mut owners = object.owner_references().iter();
        let object_name = ObjectName { kind: self.kind.clone(), name: name.to_owned() };
        let namesakes = owners.any(|it| it.kind == owner.kind && it.name == owner.name);
        let conflict = if namesakes { NameConflict::Predecessor } else { NameConflict::Taken };
        Ok(Err(conflict(object_name)))
    }

    /// The error for an object `name` that has changed or was replaced since the read.
    pub(crate) fn conflict(&self, name: &str) -> Error {
        Error::Conflict(ObjectName { kind: self.kind.clone(), name: name.to_owned() })
    }
}

impl<'context> CachedClient<'context> {
    pub(crate) fn new(context: &'context Context, meta: &MiniClusterMeta) -> Self {
        Self { context, stores: &context.stores, name: namespaced_name(meta) }
    }

    pub(crate) fn objects<K>(&self) -> Objects<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let api = Api::namespaced(self.context.client.clone(), &self.name.0);
        Objects { api, kind: K::kind(&()).into_owned() }
    }

    /// Like [`Self::objects`], for a kind without a Rust type.
    pub(crate) fn dynamic(&self, resource: &ApiResource) -> Objects<DynamicObject> {
        let api = Api::namespaced_with(self.context.client.clone(), &self.name.0, resource);
        Objects { api, kind: resource.kind.clone() }
    }

    /// The MiniCluster, if it exists; from the cache if it is current and its Job exists.
    pub(crate) async fn mini_cluster(&self, meta: &MiniClusterMeta) -> Result<Option<Read>, Error> {
        let (namespace, name) = &self.name;
        let job = ObjectRef::new(name).within(namespace);
        let has_job = self.stores.jobs.get(&job).is_some();
        if let Some(mini_cluster) = self.context.cache.get(meta).filter(|_| has_job) {
            return Ok(Some(Read { mini_cluster, unreadable: None }));
        }
        let read = read(&self.context.client, namespace, name).await?;
        match &read {
            Some(Read { mini_cluster, unreadable: None }) => self.context.cache.put(mini_cluster),
            Some(_) | None => self.context.cache.forget(&self.name),
        }
        Ok(read)
    }

    /// The object `name` of `owner`, if it exists, from `store` or else from the API server.
    pub(crate) async fn get_owned<K>(
        &self,
        name: &str,
        owner: &OwnerReference,
        store: fn(&Stores) -> &Store<K>,
    ) -> Result<Owned<K>, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + 'static,
    {
        let stored = stored(store(self.stores), &self.name.0, name);
        match stored.filter(|object| is_owned(object, &owner.uid)) {
            Some(object) => Ok(Ok(Some(object))),
            None => self.objects().read_owned(name, owner).await,
        }
    }

    /// The objects that `parameters` select; errors name `kind` and `name`.
    pub(crate) async fn list<K>(
        &self,
        parameters: &ListParams,
        kind: &str,
        name: &str,
    ) -> Result<ObjectList<K>, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let answer = self.objects().api.list(parameters).await;
        answer.map_err(Error::of(Verb::Read, kind, name))
    }

    /// The pods of this Job that `parameters` select, read page by page.
    pub(crate) fn pods_of<'job>(
        &'job self,
        job: &'job Job,
        parameters: ListParams,
    ) -> impl Stream<Item = Result<Pod, Error>> + 'job {
        let pages = stream::try_unfold(Some(parameters.limit(POD_LIST_PAGE)), async |parameters| {
            let Some(mut parameters) = parameters else { return Ok::<_, Error>(None) };
            let page: ObjectList<Pod> =
                self.list(&parameters, "Pods of Job", &job.name_any()).await?;
            parameters.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            let next = parameters.continue_token.is_some().then_some(parameters);
            // Pods of a deleted Job of the same name may still exist.
            let uid = job.uid().unwrap_or_default();
            let pods = page.items.into_iter().filter(move |pod| is_owned(pod, &uid)).map(Ok);
            Ok(Some((stream::iter(pods), next)))
        });
        pages.try_flatten()
    }

    /// The pod of `spec.services`. Without `spec.services`, the store shows whether there is one to delete, and a pod
    /// of others with this name is no conflict.
    pub(crate) async fn services_pod(
        &self,
        name: &str,
        owner: &OwnerReference,
        is_asked_for: bool,
    ) -> Result<Owned<Pod>, Error> {
        let is_absent = self.stores.lacks_services_pod(&self.name.0, name);
        if is_absent && !is_asked_for {
            return Ok(Ok(None));
        }
        self.get_owned(name, owner, |stores| &stores.services_pods).await
    }
}

pub(crate) fn is_owned(object: &impl ResourceExt, uid: &str) -> bool {
    object.owner_references().iter().any(|owner| owner.uid == uid)
}

/// The object if it is ours; adds a conflict to `conflicts`.
pub(crate) fn split_conflict<K>(found: Owned<K>, conflicts: &mut Vec<NameConflict>) -> Option<K> {
    found.map_err(|conflict| conflicts.push(conflict)).ok().flatten()
}

/// A MiniCluster without its specification, which can always be parsed.
pub(crate) type Reported = Object<IgnoredAny, MiniClusterStatus>;

/// Access to the MiniClusters of `namespace` without their specifications.
pub(crate) fn reported(client: Client, namespace: &str) -> Api<Reported> {
    Api::namespaced_with(client, namespace, &ApiResource::erase::<MiniCluster>(&()))
}

pub(crate) struct Read {
    /// Its specification is empty if it could not be parsed.
    pub(crate) mini_cluster: MiniCluster,
    pub(crate) unreadable: Option<Violations>,
}

/// Reads the MiniCluster `name`, if it exists. The stored specification may not fit the types of this release,
/// because the API server checked it by the definition of its time, and an overlay may have any depth. That is a
/// fault of the MiniCluster. The client's own parser would log the whole object, secrets included.
pub(crate) async fn read(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<Read>, Error> {
    let failed = Error::of(Verb::Read, "MiniCluster", name);
    let request = Request::new(MiniCluster::url_path(&(), Some(namespace)));
    let text = match request.get(name, &GetParams::default()) {
        Ok(request) => client.request_text(request).await,
        Err(error) => Err(kube::Error::BuildRequest(error)),
    };
    let text = match text {
        Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(text) => text,
    };
    let error = match serde_json::from_str(&text) {
        Ok(mini_cluster) => return Ok(Some(Read { mini_cluster, unreadable: None })),
        Err(error) => error,
    };
    let reported: Reported =
        serde_json::from_str(&text).map_err(|error| failed(kube::Error::SerdeError(error)))?;
    let mini_cluster = MiniCluster {
        metadata: reported.metadata,
        spec: MiniClusterSpec::default(),
        status: reported.status,
    };
    let message = format!("cannot be read: {error}");
    let violation = Violation { path: "spec".to_owned(), message };
    Ok(Some(Read { mini_cluster, unreadable: Some(Violations(vec![violation])) }))
}
