//! What the operator watches, and what it keeps of that in memory.
//!
//! Everybody may make objects with the labels that the watches select. The stores hold only those that a MiniCluster
//! controls, or a Job where they are pods; without the fields that nobody here reads; and of a large object, or of one
//! too many, only its identity, so that it is read when it is needed. Whatever others write, memory stays small.

use super::mini_cluster_cache::Recent;
use crate::controller::job_ext::is_finished;
use crate::controller::pod_ext::leaves_no_container;
use crate::controller::run_record::RunRecord;
use crate::metrics::Population;
use flux_api::cluster::validate::of_kueue;
use flux_api::crd::MiniCluster;
use flux_contract::invocation::REPLACED_VARIABLES;
use flux_contract::labels;
use futures::{FutureExt as _, Stream, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, ContainerStatus, Pod, PodSpec, PodStatus, Service,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, OwnerReference};
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::Event;
use kube::runtime::{Predicate as _, PredicateConfig, WatchStreamExt as _, predicates, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fmt::Debug;
use std::future::ready;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::mem;
use std::sync::Arc;

/// The metadata of a MiniCluster. Its specification is not watched: of a page of a list one that cannot be decoded
/// would stop the watch of all.
pub(crate) type MiniClusterMeta = PartialObjectMeta<MiniCluster>;

/// Selects what the operator makes, of which the labels are as `more` says.
pub(crate) fn managed(more: &str) -> String {
    format!("{}={}{more}", labels::MANAGED_BY, labels::MANAGED_BY_VALUE)
}

pub(crate) const MINI_CLUSTER: &str = "MiniCluster";
pub(crate) const JOB: &str = "Job";

/// Objects of a page of a watch's first list, all of which it holds in memory: an object has up to 1.5 MiB.
const PAGE: u32 = 5;
/// Largest object that is stored whole, in bytes of JSON: without scripts, no object of a MiniCluster has 4 KiB.
const SIZE_LIMIT: usize = 16 * 1024;
/// What the whole objects of one store may take of memory, in bytes as [`memory_of`] estimates them: more than those
/// of 2,000 MiniClusters that run a command. Those of runs that are over get half of it: of these there are ever more,
/// and nobody reads them again.
const STORE_LIMIT: usize = 16 * 1024 * 1024;
/// Longest name of a controller that a large object is stored with.
const NAME_LIMIT: usize = 253;

/// Annotations of the operator begin like this.
const OURS: &str = "flux-framework.org/";
/// Label of a stored [`MiniClusterMeta`]: a hash of the labels and annotations that a reconcile reads, however long.
const READ_HASH: &str = "flux-framework.org/read-hash";

pub(crate) struct Stores {
    pub(crate) jobs: Store<Job>,
    pub(crate) services: Store<Service>,
    pub(crate) config_maps: Store<ConfigMap>,
    pub(crate) services_pods: Store<Pod>,
    pub(crate) leads: Store<Pod>,
}

/// What the watches write into the stores.
pub(crate) struct Writers {
    pub(crate) jobs: Writer<Job>,
    pub(crate) services: Writer<Service>,
    pub(crate) config_maps: Writer<ConfigMap>,
    pub(crate) services_pods: Writer<Pod>,
    pub(crate) leads: Writer<Pod>,
}

impl Stores {
    /// Stores that are empty, and incomplete until watches write into them.
    pub(crate) fn new() -> (Self, Writers) {
        let (jobs, of_jobs) = reflector::store();
        let (services, of_services) = reflector::store();
        let (config_maps, of_config_maps) = reflector::store();
        let (services_pods, of_services_pods) = reflector::store();
        let (leads, of_leads) = reflector::store();
        let writers = Writers {
            jobs: of_jobs,
            services: of_services,
            config_maps: of_config_maps,
            services_pods: of_services_pods,
            leads: of_leads,
        };
        (Self { jobs, services, config_maps, services_pods, leads }, writers)
    }

    /// The pods with index 0 of the Job with this uid; `None` before all are there, or where one is not stored whole.
    pub(crate) fn leads_of(&self, namespace: &str, job: &str) -> Option<Vec<Pod>> {
        if !is_complete(&self.leads) {
            return None;
        }
        let of_job = |pod: &Pod| {
            pod.owner_references().iter().any(|owner| owner.uid == job)
                && pod.metadata.namespace.as_deref() == Some(namespace)
        };
        let found = self.leads.state_filter(of_job);
        found.into_iter().map(|pod| is_whole(&*pod).then(|| (*pod).clone())).collect()
    }

    /// True when there is no pod of this name for `spec.services`.
    pub(crate) fn lacks_services_pod(&self, namespace: &str, name: &str) -> bool {
        let pod = ObjectRef::new(name).within(namespace);
        is_complete(&self.services_pods) && self.services_pods.get(&pod).is_none()
    }
}

/// The object `name`, if it is stored whole.
pub(crate) fn stored<K>(store: &Store<K>, namespace: &str, name: &str) -> Option<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let object = store.get(&ObjectRef::new(name).within(namespace))?;
    is_whole(&*object).then(|| (*object).clone())
}

/// True when the first list is complete. Nobody else waits for these stores: of two that wait for one, only the last
/// is woken (kube-runtime 5.0.0, `DelayedInit`).
fn is_complete<K>(store: &Store<K>) -> bool
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    matches!(store.wait_until_ready().now_or_never(), Some(Ok(())))
}

/// True for an object of which [`Budget`] has left more than the identity.
fn is_whole(object: &impl Resource) -> bool {
    object.meta().resource_version.is_some()
}

/// After so many seconds the API server ends a watch, and the next begins where it was: load balancers forget
/// connections that are silent for longer, and some leave both sides waiting.
pub(crate) const WATCH: u32 = 20;

/// Every MiniCluster, and the changes of their specifications and of what a queue reads of them: status writes do not
/// pass. `synced` is called whenever all that exist are in the store; what is remembered of others is forgotten then.
pub(crate) fn mini_clusters(
    api: Api<MiniClusterMeta>,
    recent: Arc<Recent>,
    synced: impl Fn() + Send + 'static,
) -> (Store<MiniClusterMeta>, impl Stream<Item = watcher::Result<MiniClusterMeta>> + Send + 'static)
{
    let (store, writer) = reflector::store();
    let stored = store.clone();
    let stream = watcher(api, watcher::Config::default().page_size(PAGE))
        .default_backoff()
        .modify(|cluster| strip_metadata(&mut cluster.metadata))
        .reflect(writer)
        .inspect_ok(move |event| {
            if matches!(event, Event::InitDone | Event::Delete(_)) {
                recent.retain(|namespace, name| {
                    stored.get(&ObjectRef::new(name).within(namespace)).is_some()
                });
            }
            if matches!(event, Event::InitDone) {
                synced();
            }
        })
        .applied_objects()
        .predicate_filter(
            predicates::generation.combine(predicates::labels),
            PredicateConfig::default(),
        );
    (store, stream)
}

/// Counts the MiniClusters in `store`, each as it was seen last.
pub(crate) fn population(
    store: Store<MiniClusterMeta>,
    recent: Arc<Recent>,
) -> impl Fn() -> Population {
    move || {
        let all = store.state();
        Population::of(all.iter().map(|it| recent.observed(&**it)), Timestamp::now())
    }
}

/// Each object that is changed or goes, of those that `selector` selects and an object of kind `controller` controls.
/// `writer` gets them all, without what `take_out` takes, which answers whether the object is of a run that is over.
pub(crate) fn controlled<K>(
    api: Api<K>,
    writer: Writer<K>,
    selector: &str,
    controller: &'static str,
    take_out: fn(&mut K) -> bool,
) -> impl Stream<Item = watcher::Result<K>> + Send + 'static
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    K: Clone + Default + Debug + Send + Sync + 'static,
{
    let mut budget = Budget::default();
    let config = watcher::Config::default().page_size(PAGE).timeout(WATCH);
    watcher(api, config.labels(selector))
        .default_backoff()
        .try_filter_map(move |event| ready(Ok(without_others(event, controller))))
        .map_ok(move |event| budget.fit(event, take_out))
        .reflect(writer)
        .touched_objects()
}

/// What the whole objects of a store take of memory, by a hash of their namespaces and names.
#[derive(Default)]
struct Budget {
    /// Each with whether it is of a run that is over.
    sizes: HashMap<u64, (usize, bool)>,
    sum: usize,
    sum_of_over: usize,
}

impl Budget {
    /// Leaves the objects of `event` whole as long as [`SIZE_LIMIT`] and [`STORE_LIMIT`] allow it.
    fn fit<K>(&mut self, mut event: Event<K>, take_out: fn(&mut K) -> bool) -> Event<K>
    where
        K: Resource + Serialize + Default + Clone,
    {
        match &mut event {
            Event::Init => *self = Self::default(),
            Event::InitApply(object) | Event::Apply(object) => {
                let is_over = take_out(object);
                self.hold(object, is_over);
                // Lists that were read have room for four elements at least, of up to a KiB; those of a copy have not.
                *object = object.clone();
            }
            Event::Delete(object) => {
                take_out(object);
                self.release(object);
            }
            Event::InitDone => {}
        }
        event
    }

    fn hold<K>(&mut self, object: &mut K, is_over: bool)
    where
        K: Resource + Serialize + Default,
    {
        let key = self.release(object);
        let has_room = |size: &usize| {
            self.sum + size <= STORE_LIMIT
                && (!is_over || self.sum_of_over + size <= STORE_LIMIT / 2)
        };
        match memory_of(object).filter(has_room) {
            Some(size) => {
                self.sizes.insert(key, (size, is_over));
                self.sum += size;
                self.sum_of_over += if is_over { size } else { 0 };
            }
            None => leave_identity(object),
        }
    }

    fn release(&mut self, object: &impl Resource) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&object.meta().namespace, &object.meta().name).hash(&mut hasher);
        let key = hasher.finish();
        let (size, is_over) = self.sizes.remove(&key).unwrap_or_default();
        self.sum -= size;
        self.sum_of_over -= if is_over { size } else { 0 };
        key
    }
}

/// What `object` takes of memory, about: its text, and 64 bytes for each field and each entry of a map, which take
/// more than their text where there are many. `None` for one that is larger than [`SIZE_LIMIT`].
fn memory_of(object: &impl Serialize) -> Option<usize> {
    let text = serde_json::to_vec(object).ok().filter(|text| text.len() <= SIZE_LIMIT)?;
    Some(text.len() + 64 * text.split(|byte| *byte == b':').count())
}

/// Leaves out what no object of kind `controller` owns. What is no longer owned is gone.
fn without_others<K: Resource>(event: Event<K>, controller: &str) -> Option<Event<K>> {
    match event {
        Event::Apply(object) if !is_owned_by(&object, controller) => Some(Event::Delete(object)),
        Event::InitApply(object) if !is_owned_by(&object, controller) => None,
        event @ (Event::Apply(_)
        | Event::Delete(_)
        | Event::Init
        | Event::InitApply(_)
        | Event::InitDone) => Some(event),
    }
}

/// The headless Service that several MiniClusters share has owners, and no controller.
fn is_owned_by(object: &impl Resource, kind: &str) -> bool {
    object.meta().owner_references.iter().flatten().any(|owner| owner.kind == kind)
}

pub(crate) fn controller_of<'object>(
    object: &'object impl Resource,
    kind: &str,
) -> Option<&'object OwnerReference> {
    let owners = object.meta().owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true)).filter(|owner| owner.kind == kind)
}

/// The MiniCluster that a pod of a Job belongs to: the Job has its name.
pub(crate) fn cluster_of(pod: &Pod) -> Option<ObjectRef<MiniClusterMeta>> {
    let job = controller_of(pod, JOB)?;
    Some(ObjectRef::new(&job.name).within(pod.metadata.namespace.as_deref()?))
}

/// Takes out of an object all but its identity: also its version, by which [`is_whole`] knows it.
fn leave_identity<K: Resource + Default>(object: &mut K) {
    let metadata = mem::take(object.meta_mut());
    let owners = metadata.owner_references.into_iter().flatten();
    let controller = owners.filter(|it| it.controller == Some(true)).filter(is_short).take(1);
    *object = K::default();
    *object.meta_mut() = ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        owner_references: Some(controller.collect()),
        ..ObjectMeta::default()
    };
}

fn is_short(owner: &OwnerReference) -> bool {
    [&owner.name, &owner.uid, &owner.api_version].iter().all(|text| text.len() <= NAME_LIMIT)
}

/// Leaves of a Job's template the restart policy, the names of the containers, the images that are copied or mounted, pod-level
/// resources, claims of devices, and what holds its pods back. True for one that has finished.
pub(crate) fn strip_job(job: &mut Job) -> bool {
    job.metadata.managed_fields = None;
    let is_over = is_finished(job);
    let Some(spec) = &mut job.spec else { return is_over };
    (spec.selector, spec.success_policy) = (None, None);
    let Some(pod) = mem::take(&mut spec.template).spec else { return is_over };
    let image_of =
        |it: Container| Container { name: it.name, image: it.image, ..Container::default() };
    let init = pod.init_containers.map(|all| all.into_iter().map(image_of).collect());
    let name_of = |it: Container| Container { name: it.name, ..Container::default() };
    let volumes = pod.volumes.into_iter().flatten().filter(|volume| volume.image.is_some());
    spec.template.spec = Some(PodSpec {
        restart_policy: pod.restart_policy,
        containers: pod.containers.into_iter().map(name_of).collect(),
        init_containers: init,
        volumes: Some(volumes.collect()),
        resources: pod.resources,
        resource_claims: pod.resource_claims,
        scheduling_gates: pod.scheduling_gates,
        ..PodSpec::default()
    });
    is_over
}

/// Leaves of a Service all that people write, and the status.
pub(crate) fn strip_service(service: &mut Service) -> bool {
    service.metadata.managed_fields = None;
    false
}

/// Leaves of a ConfigMap all that people write. True where the run is noted to have ended.
pub(crate) fn strip_config_map(config_map: &mut ConfigMap) -> bool {
    config_map.metadata.managed_fields = None;
    RunRecord::on(config_map).is_some_and(|run| run.end.is_some())
}

/// Leaves of a pod how it and its containers are, its index, the operator's annotations, and how many pods were there
/// before it; of one that may have been refused, when its status was written. True for one that has ended.
pub(crate) fn strip_pod(pod: &mut Pod) -> bool {
    pod.spec = None;
    let times = pod.metadata.managed_fields.take().filter(|_| leaves_no_container(pod));
    pod.metadata.managed_fields = times.map(|entries| {
        let without_fields = |entry| ManagedFieldsEntry { fields_v1: None, ..entry };
        entries.into_iter().map(without_fields).collect()
    });
    let counts = REPLACED_VARIABLES.map(|(_, annotation)| annotation);
    let is_read = |key: &str| key.starts_with(OURS) || counts.contains(&key);
    let metadata = &mut pod.metadata;
    metadata.annotations.iter_mut().for_each(|all| all.retain(|key, _| is_read(key)));
    metadata.labels.iter_mut().for_each(|all| all.retain(|key, _| key == labels::COMPLETION_INDEX));
    let Some(status) = pod.status.take() else { return false };
    let is_over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let stripped = |container: ContainerStatus| ContainerStatus {
        name: container.name,
        container_id: container.container_id,
        last_state: container.last_state,
        ready: container.ready,
        restart_count: container.restart_count,
        started: container.started,
        state: container.state,
        ..ContainerStatus::default()
    };
    let all_of = |all: Vec<ContainerStatus>| all.into_iter().map(stripped).collect();
    pod.status = Some(PodStatus {
        conditions: status.conditions,
        container_statuses: status.container_statuses.map(all_of),
        init_container_statuses: status.init_container_statuses.map(all_of),
        message: status.message,
        phase: status.phase,
        // The address is where a lead is asked what its queue needs.
        pod_ip: status.pod_ip,
        reason: status.reason,
        start_time: status.start_time,
        ..PodStatus::default()
    });
    is_over
}

/// Leaves of a MiniCluster's metadata the identity, its versions, and [`READ_HASH`].
fn strip_metadata(metadata: &mut ObjectMeta) {
    let read = read_hash(metadata).map(|hash| (READ_HASH.to_owned(), hash.to_string()));
    *metadata = ObjectMeta {
        name: metadata.name.take(),
        namespace: metadata.namespace.take(),
        uid: metadata.uid.take(),
        resource_version: metadata.resource_version.take(),
        generation: metadata.generation,
        labels: read.map(|read| [read].into()),
        ..ObjectMeta::default()
    };
}

fn read_hash(metadata: &ObjectMeta) -> Option<u64> {
    let all = [&metadata.labels, &metadata.annotations];
    let for_queue: [Vec<_>; 2] = all.map(|entries| of_kueue(entries.as_ref()).collect());
    let resume = metadata.annotations.as_ref().and_then(|all| all.get(labels::RESUME));
    let mut hasher = DefaultHasher::new();
    (&for_queue, resume).hash(&mut hasher);
    let is_read = resume.is_some() || for_queue.iter().any(|entries| !entries.is_empty());
    is_read.then(|| hasher.finish())
}

#[cfg(test)]
mod tests;
