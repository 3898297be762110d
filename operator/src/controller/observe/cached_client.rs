//! The API server, as one reconcile of one MiniCluster uses it: what a store holds is not asked for again.
//!
//! What makes a Job is read live: the MiniCluster, its Job and its `ConfigMap`, wherever no Job is there. All else may
//! be out of date, and every write carries the version that it was decided on.

use super::mini_cluster_cache::{Name, name_of};
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

/// Pods that are read at once: others may label theirs like those of a Job, and a pod takes much memory.
const PAGE: u32 = 20;

/// Reads from the stores, and from the API server what they do not hold.
pub(crate) struct CachedClient<'context> {
    pub(crate) context: &'context Context,
    /// Empty before the watches begin: then everything is read live.
    pub(crate) stores: &'context Stores,
    pub(crate) cluster: Name,
}

/// The object of a name that is ours to give, if there is one, or what somebody else has there.
pub(crate) type Owned<K> = Result<Option<K>, NameConflict>;

/// Objects of one kind in the namespace of a MiniCluster, on the API server.
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
        let taken = ObjectName { kind: self.kind.clone(), name: name.to_owned() };
        let namesakes = owners.any(|it| it.kind == owner.kind && it.name == owner.name);
        let conflict = if namesakes { NameConflict::Predecessor } else { NameConflict::Taken };
        Ok(Err(conflict(taken)))
    }

    /// The object `name` is another than the one that was read.
    pub(crate) fn conflict(&self, name: &str) -> Error {
        Error::Conflict(ObjectName { kind: self.kind.clone(), name: name.to_owned() })
    }
}

impl<'context> CachedClient<'context> {
    pub(crate) fn new(context: &'context Context, cluster: &MiniClusterMeta) -> Self {
        Self { context, stores: &context.stores, cluster: name_of(cluster) }
    }

    pub(crate) fn objects<K>(&self) -> Objects<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let api = Api::namespaced(self.context.client.clone(), &self.cluster.0);
        Objects { api, kind: K::kind(&()).into_owned() }
    }

    /// The same of a kind that this operator has no type for.
    pub(crate) fn dynamic(&self, resource: &ApiResource) -> Objects<DynamicObject> {
        let api = Api::namespaced_with(self.context.client.clone(), &self.cluster.0, resource);
        Objects { api, kind: resource.kind.clone() }
    }

    /// The MiniCluster itself, if it is there; where it has a Job, as it was read or written last.
    pub(crate) async fn cluster(&self, watched: &MiniClusterMeta) -> Result<Option<Read>, Error> {
        let (namespace, name) = &self.cluster;
        let job = ObjectRef::new(name).within(namespace);
        let has_job = self.stores.jobs.get(&job).is_some();
        if let Some(object) = self.context.recent.cluster(watched).filter(|_| has_job) {
            return Ok(Some(Read { object, unreadable: None }));
        }
        let read = read(&self.context.client, namespace, name).await?;
        match &read {
            Some(Read { object, unreadable: None }) => self.context.recent.set_cluster(object),
            Some(_) | None => self.context.recent.forget(&self.cluster),
        }
        Ok(read)
    }

    /// The object called `name`, if it is there, and whether it is `owner`'s; `store` is where the watch puts it.
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
        let stored = stored(store(self.stores), &self.cluster.0, name);
        match stored.filter(|object| is_owned(object, &owner.uid)) {
            Some(object) => Ok(Ok(Some(object))),
            None => self.objects().read_owned(name, owner).await,
        }
    }

    /// The objects that `parameters` select; a failure is one to read `kind` and `name`.
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

    /// The pods of this very Job that `parameters` select, read a page at a time.
    pub(crate) fn pods_of<'job>(
        &'job self,
        job: &'job Job,
        parameters: ListParams,
    ) -> impl Stream<Item = Result<Pod, Error>> + 'job {
        let pages = stream::try_unfold(Some(parameters.limit(PAGE)), async |parameters| {
            let Some(mut parameters) = parameters else { return Ok::<_, Error>(None) };
            let page: ObjectList<Pod> =
                self.list(&parameters, "Pods of Job", &job.name_any()).await?;
            parameters.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            let next = parameters.continue_token.is_some().then_some(parameters);
            // A Job of the same name may have gone a moment ago, and its pods not yet.
            let uid = job.uid().unwrap_or_default();
            let pods = page.items.into_iter().filter(move |pod| is_owned(pod, &uid)).map(Ok);
            Ok(Some((stream::iter(pods), next)))
        });
        pages.try_flatten()
    }

    /// The pod of `spec.services`. Where the specification asks for none, one of somebody else is in nobody's way, and
    /// the store says whether there is one.
    pub(crate) async fn services_pod(
        &self,
        name: &str,
        owner: &OwnerReference,
        is_asked_for: bool,
    ) -> Result<Owned<Pod>, Error> {
        let is_absent = self.stores.lacks_services_pod(&self.cluster.0, name);
        if is_absent && !is_asked_for {
            return Ok(Ok(None));
        }
        self.get_owned(name, owner, |stores| &stores.services_pods).await
    }
}

pub(crate) fn is_owned(object: &impl ResourceExt, uid: &str) -> bool {
    object.owner_references().iter().any(|owner| owner.uid == uid)
}

/// The object if it is ours; one of somebody else goes into `taken`.
pub(crate) fn or_note<K>(found: Owned<K>, taken: &mut Vec<NameConflict>) -> Option<K> {
    found.map_err(|other| taken.push(other)).ok().flatten()
}

/// A MiniCluster whose specification nobody asks for: whatever is in there, it can be read.
pub(crate) type Reported = Object<IgnoredAny, MiniClusterStatus>;

/// Every MiniCluster of `namespace` without its specification.
pub(crate) fn reported(client: Client, namespace: &str) -> Api<Reported> {
    Api::namespaced_with(client, namespace, &ApiResource::erase::<MiniCluster>(&()))
}

pub(crate) struct Read {
    /// The object; with an empty specification where that could not be read.
    pub(crate) object: MiniCluster,
    pub(crate) unreadable: Option<Violations>,
}

/// Reads the MiniCluster `name`; nothing where there is none. The API server stores what the definition of its time
/// allows, and an overlay of any depth. What is no specification for this operator is a fault of that MiniCluster.
/// The client's own reading would log the whole object, secrets included.
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
        Ok(object) => return Ok(Some(Read { object, unreadable: None })),
        Err(error) => error,
    };
    let reported: Reported =
        serde_json::from_str(&text).map_err(|error| failed(kube::Error::SerdeError(error)))?;
    let object = MiniCluster {
        metadata: reported.metadata,
        spec: MiniClusterSpec::default(),
        status: reported.status,
    };
    let message = format!("cannot be read: {error}");
    let violation = Violation { path: "spec".to_owned(), message };
    Ok(Some(Read { object, unreadable: Some(Violations(vec![violation])) }))
}
