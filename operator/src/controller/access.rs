//! The API server, as one reconcile of one MiniCluster uses it: what a watch has brought is not asked
//! for again.

use super::context::Context;
use super::error::{Error, Taken};
use super::image_volumes::ImageVolumes;
use super::install::Support;
use super::known::{Asked, Known, Marker, Name, Watched};
use super::read::{Read, read};
use super::waiting::Waiting;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What is asked of the API server, and what need not be.
pub(super) struct Access<'context> {
    client: &'context Client,
    known: &'context Known,
    image_volumes: &'context ImageVolumes,
    cluster: Name,
    /// True when the API server is asked for everything.
    afresh: bool,
    /// True when something was taken from what is known.
    remembers: AtomicBool,
}

/// The object of a name that is ours to give, if there is one, or what somebody else has there.
pub(super) type Owned<K> = Result<Option<K>, Taken>;

impl<'context> Access<'context> {
    /// Asks for what is not known.
    pub(super) fn new(context: &'context Context, marker: &Marker) -> Self {
        Self {
            client: &context.client,
            known: &context.known,
            image_volumes: &context.image_volumes,
            cluster: (marker.namespace().unwrap_or_default(), marker.name_any()),
            afresh: false,
            remembers: AtomicBool::new(false),
        }
    }

    /// Asks for everything.
    pub(super) fn afresh(&self) -> Self {
        let remembers = AtomicBool::new(false);
        Self { afresh: true, remembers, cluster: self.cluster.clone(), ..*self }
    }

    /// True when something that was asked for may be out of date: it was known, and was not read.
    pub(super) fn remembers(&self) -> bool {
        self.remembers.load(Ordering::Relaxed)
    }

    /// Who asks the API server.
    pub(super) const fn client(&self) -> &Client {
        self.client
    }

    /// Namespace of the MiniCluster.
    pub(super) fn namespace(&self) -> &str {
        &self.cluster.0
    }

    /// Objects of one kind in the namespace of the MiniCluster.
    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.cluster.0)
    }

    /// The MiniCluster itself, if it is there.
    pub(super) async fn cluster(&self, marker: &Marker) -> Result<Option<Read>, Error> {
        if let Some(object) = self.recall(|known| known.cluster(marker)) {
            return Ok(Some(Read { object, unreadable: None }));
        }
        let (namespace, name) = &self.cluster;
        let read = read(self.client, namespace, name).await?;
        match &read {
            Some(Read { object, unreadable: None }) => self.known.read(object),
            Some(_) | None => self.known.forget(&self.cluster),
        }
        Ok(read)
    }

    /// The object called `name`, and whether it is `owner`'s.
    pub(super) async fn get_owned<K>(
        &self,
        name: &str,
        owner: &OwnerReference,
    ) -> Result<Owned<K>, Error>
    where
        K: Watched + Resource<Scope = NamespaceResourceScope> + Debug + DeserializeOwned,
    {
        let ours = |object: &K| is_owned(object, owner);
        if let Some(object) = self.recall(|known| known.object(&self.cluster, name).filter(ours)) {
            return Ok(Ok(Some(object)));
        }
        self.read_owned(name, owner).await
    }

    /// The same, read now.
    pub(super) async fn read_owned<K>(
        &self,
        name: &str,
        owner: &OwnerReference,
    ) -> Result<Owned<K>, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        let kind = K::kind(&()).into_owned();
        let found = self.api::<K>().get_opt(name).await.map_err(|source| Error::Read {
            kind: kind.clone(),
            name: name.to_owned(),
            source: Box::new(source),
        })?;
        let Some(object) = found else { return Ok(Ok(None)) };
        if is_owned(&object, owner) {
            self.answered(&object);
            return Ok(Ok(Some(object)));
        }
        let owners = object.owner_references();
        let namesake =
            |other: &OwnerReference| other.kind == owner.kind && other.name == owner.name;
        let by_predecessor = owners.iter().any(namesake);
        Ok(Err(Taken { kind, name: name.to_owned(), by_predecessor }))
    }

    /// The companion called `name`, where none is asked for: one of somebody else is in nobody's way.
    pub(super) async fn unasked_companion(
        &self,
        name: &str,
        owner: &OwnerReference,
    ) -> Result<Owned<Pod>, Error> {
        if !self.afresh && self.known.has_no_companion(&self.cluster, name) {
            return Ok(Ok(None));
        }
        self.get_owned(name, owner).await
    }

    /// The pods with index 0 of the Job with this uid, if they are known.
    pub(super) fn leads(&self, job: &str) -> Option<Vec<Pod>> {
        self.recall(|known| known.leads(&self.cluster.0, job))
    }

    /// What keeps the pods from starting, if that was asked less than `patience` ago.
    pub(super) fn waiting(&self, patience: Duration) -> Option<Asked> {
        self.recall(|known| known.waiting(&self.cluster, patience))
    }

    /// Notes what keeps the pods from starting.
    pub(super) fn asked(&self, waiting: Option<Waiting>) {
        self.known.asked(&self.cluster, waiting);
    }

    /// Notes what the API server has answered, so that no watch brings anything older.
    pub(super) fn answered(&self, object: &impl ResourceExt) {
        self.known.answered(&self.cluster, object);
    }

    /// Whether pods can have image volumes: nothing of this MiniCluster, so it is not asked afresh.
    pub(super) async fn image_volumes(&self) -> Support {
        self.image_volumes.support(self.client).await
    }

    /// What is known, where that may be used.
    fn recall<T>(&self, recall: impl FnOnce(&Known) -> Option<T>) -> Option<T> {
        let found = if self.afresh { None } else { recall(self.known) };
        if found.is_some() {
            self.remembers.store(true, Ordering::Relaxed);
        }
        found
    }
}

/// True when `owner` is among the owners of `object`.
pub(super) fn is_owned(object: &impl ResourceExt, owner: &OwnerReference) -> bool {
    object.owner_references().iter().any(|it| it.uid == owner.uid)
}
