//! Objects as they are kept in memory: as text, without what nobody asks for, and as much text as there is room for.

use crate::cluster::validate::of_kueue;
use crate::crd::MiniCluster;
use flux_contract::invocation::REPLACED_VARIABLES;
use flux_contract::labels;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Container, ContainerStatus, Pod, PodSpec, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::core::{ObjectMeta, PartialObjectMeta, PartialObjectMetaExt as _};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Annotations that are ours begin like this.
const OURS: &str = "flux-framework.org/";
/// Label of metadata as it is kept: [`queue_hash`].
const QUEUE_HASH: &str = "flux-framework.org/queue-hash";
/// Longest text of one object that is kept, in bytes: of a MiniCluster that runs a command without scripts, no object
/// has 4 KiB. A larger object is read when it is needed.
const TEXT_LIMIT: usize = 16 * 1024;
/// Room for all texts, in bytes. It is a quarter of what the Deployment gives; the texts of 1,000 MiniClusters take 10 MiB.
static ROOM: Room = Room::new(64 * 1024 * 1024);

/// A kind whose objects are kept.
pub(super) trait Keep: Resource<DynamicType = ()> + Serialize + DeserializeOwned {
    /// Takes out what nobody asks for.
    fn slim(&mut self) {
        take_out_history(self.meta_mut());
    }
}

impl Keep for MiniCluster {}
impl Keep for Service {}
impl Keep for ConfigMap {}

/// Of metadata nothing is kept but the identity, and one number for all that a queue reads of it.
impl<K> Keep for PartialObjectMeta<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug,
{
    fn slim(&mut self) {
        let hash = queue_hash(&self.metadata);
        self.metadata = take_identity(&mut self.metadata);
        if let Some(hash) = hash {
            self.meta_mut()
                .labels
                .get_or_insert_default()
                .insert(QUEUE_HASH.to_owned(), hash.to_string());
        }
    }
}

/// Of its pods a Job keeps what is asked for: how they are restarted, the images that are copied or mounted, and
/// resources of a pod as a whole.
impl Keep for Job {
    fn slim(&mut self) {
        take_out_history(&mut self.metadata);
        let Some(template) = self.spec.as_mut().map(|spec| &mut spec.template) else { return };
        let Some(pod) = mem::take(template).spec else { return };
        let image_of =
            |it: Container| Container { name: it.name, image: it.image, ..Container::default() };
        let init = pod.init_containers.map(|all| all.into_iter().map(image_of).collect());
        let volumes = pod.volumes.into_iter().flatten().filter(|volume| volume.image.is_some());
        template.spec = Some(PodSpec {
            restart_policy: pod.restart_policy,
            init_containers: init,
            volumes: Some(volumes.collect()),
            resources: pod.resources,
            ..PodSpec::default()
        });
    }
}

/// Of a pod is kept how it and its containers are, what we have noted on it, and how many were there before it.
impl Keep for Pod {
    fn slim(&mut self) {
        take_out_history(&mut self.metadata);
        self.spec = None;
        if let Some(annotations) = &mut self.metadata.annotations {
            let counts = REPLACED_VARIABLES.map(|(_, annotation)| annotation);
            annotations.retain(|key, _| key.starts_with(OURS) || counts.contains(&key.as_str()));
        }
        let Some(status) = &mut self.status else { return };
        (status.host_ip, status.host_ips, status.pod_ip, status.pod_ips) = (None, None, None, None);
        let init = status.init_container_statuses.iter_mut().flatten();
        for container in init.chain(status.container_statuses.iter_mut().flatten()) {
            *container = ContainerStatus {
                name: mem::take(&mut container.name),
                last_state: container.last_state.take(),
                ready: container.ready,
                restart_count: container.restart_count,
                started: container.started,
                state: container.state.take(),
                ..ContainerStatus::default()
            };
        }
    }
}

/// Takes out of an object's metadata what is kept for others and nobody here asks for: who owns which
/// field, and what kubectl has applied, which is the whole object once more.
fn take_out_history(metadata: &mut ObjectMeta) {
    const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove(APPLIED);
    }
}

/// A hash of the labels and annotations that a queue reads, if there are any: a change of them is seen by it, however
/// much of them there is.
fn queue_hash(metadata: &ObjectMeta) -> Option<u64> {
    let all = [&metadata.labels, &metadata.annotations];
    let read: [Vec<_>; 2] = all.map(|entries| of_kueue(entries.as_ref()).collect());
    let mut hasher = DefaultHasher::new();
    read.hash(&mut hasher);
    read.iter().any(|entries| !entries.is_empty()).then(|| hasher.finish())
}

/// Takes out of an object's metadata the few words that stores and watches ask for: with the index of a pod, and
/// [`QUEUE_HASH`].
fn take_identity(metadata: &mut ObjectMeta) -> ObjectMeta {
    let labels = metadata.labels.iter().flatten();
    let asked =
        labels.filter(|(key, _)| [labels::COMPLETION_INDEX, QUEUE_HASH].contains(&key.as_str()));
    let labels: BTreeMap<_, _> = asked.map(|(key, value)| (key.clone(), value.clone())).collect();
    ObjectMeta {
        labels: Some(labels).filter(|labels| !labels.is_empty()),
        name: metadata.name.take(),
        namespace: metadata.namespace.take(),
        uid: metadata.uid.take(),
        resource_version: metadata.resource_version.take(),
        generation: metadata.generation.take(),
        owner_references: metadata.owner_references.take(),
        ..ObjectMeta::default()
    }
}

/// Room for texts: whatever others write, these are never longer.
#[derive(Debug)]
struct Room(AtomicUsize);

impl Room {
    const fn new(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }

    /// Keeps `text`, if there is room for it.
    fn keep(&'static self, text: String) -> Option<Text> {
        let take = |left: usize| left.checked_sub(text.len());
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(Text { text: text.into_boxed_str(), room: self })
    }
}

/// A text that takes room until it goes.
#[derive(Debug)]
struct Text {
    text: Box<str>,
    room: &'static Room,
}

impl Drop for Text {
    fn drop(&mut self) {
        self.room.0.fetch_add(self.text.len(), Ordering::Relaxed);
    }
}

/// An object as it is kept: who it is, and the rest as text. As a value it takes several times as much: room for
/// every field that it does not have, a tree for each map.
///
/// It is read from what the API server sends, so that of a whole page only one object is ever there as a value.
#[derive(Debug, Clone)]
pub(super) struct Kept<K> {
    identity: ObjectMeta,
    /// Nothing where it is too long, or there was no room.
    text: Option<Arc<Text>>,
    kind: PhantomData<K>,
}

impl<K: Keep> Kept<K> {
    /// What is kept of `object`.
    pub(super) fn new(mut object: K) -> Result<Self, serde_json::Error> {
        object.slim();
        let mut identity = take_identity(object.meta_mut());
        let text = serde_json::to_string(&object)?;
        let owners = serde_json::to_string(&identity.owner_references)?;
        let is_short = text.len() + owners.len() <= TEXT_LIMIT;
        if owners.len() > TEXT_LIMIT {
            // Nothing of ours has as many.
            identity.owner_references = None;
        }
        let text = if is_short { ROOM.keep(text).map(Arc::new) } else { None };
        Ok(Self { identity, text, kind: PhantomData })
    }

    /// The object, as it was kept; nothing if it was not.
    pub(super) fn object(&self) -> Option<K> {
        let mut object: K = serde_json::from_str(&self.text.as_ref()?.text).ok()?;
        let identity = self.identity.clone();
        let metadata = object.meta_mut();
        *metadata = ObjectMeta {
            name: identity.name,
            namespace: identity.namespace,
            uid: identity.uid,
            resource_version: identity.resource_version,
            generation: identity.generation,
            owner_references: identity.owner_references,
            ..mem::take(metadata)
        };
        Some(object)
    }

    /// The object of kind `kind` that controls it, if one does.
    pub(super) fn controller(&self, kind: &str) -> Option<&OwnerReference> {
        controller(self.identity.owner_references.as_deref().unwrap_or_default())
            .filter(|owner| owner.kind == kind)
    }
}

impl<K: Clone + Debug> Kept<PartialObjectMeta<K>> {
    /// The metadata that was kept.
    pub(super) fn metadata(self) -> PartialObjectMeta<K>
    where
        K: Resource<DynamicType = ()>,
    {
        self.identity.into_response_partial()
    }
}

/// The owner that controls an object, if one does.
pub(super) fn controller(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    owners.iter().find(|owner| owner.controller == Some(true))
}

impl<'de, K: Keep> Deserialize<'de> for Kept<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(K::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl<K: Resource> Resource for Kept<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.identity
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.identity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::{built_with, cluster};
    use flux_contract::Install;
    use serde_json::json;

    #[test]
    fn an_object_is_kept_as_it_is_but_for_what_nobody_asks_for() {
        let cluster = cluster(&json!({ "size": 2, "pod": { "restartPolicy": "OnFailure" } }));
        let built = built_with(&cluster, Install::Image);
        let mut map = built.config_map;
        map.metadata.managed_fields = Some(Vec::new());
        let kept = Kept::new(map.clone()).unwrap();
        assert_eq!((&kept.meta().name, &kept.meta().uid), (&map.metadata.name, &map.metadata.uid));
        map.metadata.managed_fields = None;
        assert_eq!(kept.object(), Some(map));
        let job = Kept::new(built.job).unwrap().object().unwrap();
        let pod = job.spec.unwrap().template.spec.unwrap();
        assert_eq!(pod.restart_policy.as_deref(), Some("OnFailure"));
        assert!(pod.containers.is_empty());
    }

    #[test]
    fn of_a_large_object_only_its_identity_is_kept() {
        let map = |text: usize, owners: usize| {
            let owner = json!({ "apiVersion": "v1", "kind": "Job", "name": "a", "uid": "b" });
            let metadata = json!({ "name": "hello", "ownerReferences": vec![owner; owners] });
            let map = json!({ "metadata": metadata, "data": { "text": "x".repeat(text) } });
            serde_json::from_value::<Kept<ConfigMap>>(map).unwrap()
        };
        let kept = |text, owners| {
            let map = map(text, owners);
            (map.object().is_some(), map.meta().owner_references.is_some())
        };
        assert_eq!(map(TEXT_LIMIT, 1).meta().name.as_deref(), Some("hello"));
        assert_eq!(kept(TEXT_LIMIT / 2, 1), (true, true));
        assert_eq!(kept(TEXT_LIMIT, 1), (false, true));
        assert_eq!(kept(0, TEXT_LIMIT), (false, false));
    }

    #[test]
    fn there_is_room_for_so_many_texts_until_one_goes() {
        static ROOM: Room = Room::new(5);
        let three = ROOM.keep("abc".to_owned());
        assert!(three.is_some() && ROOM.keep("def".to_owned()).is_none());
        let two = ROOM.keep("de".to_owned());
        assert!(two.is_some());
        drop(three);
        assert!(ROOM.keep("fgh".to_owned()).is_some());
    }

    #[test]
    fn of_metadata_the_identity_and_the_index_are_kept() {
        let pod = json!({ "kind": "Pod", "apiVersion": "v1", "metadata": {
            "name": "hello-0-a", "uid": "u", "annotations": { "more": "x" },
            "labels": { labels::COMPLETION_INDEX: "0", "more": "x" },
        } });
        let pod = serde_json::from_value::<Kept<PartialObjectMeta<Pod>>>(pod).unwrap().metadata();
        let expected = ObjectMeta {
            name: Some("hello-0-a".to_owned()),
            uid: Some("u".to_owned()),
            labels: Some([(labels::COMPLETION_INDEX.to_owned(), "0".to_owned())].into()),
            ..ObjectMeta::default()
        };
        assert_eq!(pod.metadata, expected);
    }

    #[test]
    fn of_a_pod_its_state_is_kept() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "annotations": { "flux-framework.org/fields": "a", "other": "b" } },
            "spec": { "containers": [] },
            "status": {
                "phase": "Running", "podIP": "192.0.2.1",
                "containerStatuses": [{
                    "name": "hello", "image": "app", "imageID": "app@1", "ready": true,
                    "restartCount": 2, "started": true, "state": { "running": {} },
                }],
            },
        }))
        .unwrap();
        let kept = Kept::new(pod).unwrap().object().unwrap();
        let expected: Pod = serde_json::from_value(json!({
            "metadata": { "annotations": { "flux-framework.org/fields": "a" } },
            "status": {
                "phase": "Running",
                "containerStatuses": [{
                    "name": "hello", "image": "", "imageID": "", "ready": true,
                    "restartCount": 2, "started": true, "state": { "running": {} },
                }],
            },
        }))
        .unwrap();
        assert_eq!(kept, expected);
    }
}
