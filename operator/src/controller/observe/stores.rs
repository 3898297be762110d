//! The watches of the operator, and the stores that keep their objects in memory.
//!
//! Everybody may create objects with the labels that the watches select. So the stores keep only objects that a
//! MiniCluster, or for pods a Job, owns; without the fields that the operator does not read; and of a large object,
//! or of one that exceeds the memory limit, only its identity ([`Kept`]): the operator reads it when it needs it.

use super::kept::{Kept, SharedKept, Stage, is_whole};
use super::mini_cluster_cache::{MiniClusterCache, namespaced_name};
use crate::controller::job_ext::is_finished;
use crate::controller::pod_ext::leaves_no_container;
use crate::controller::run_record::RunRecord;
use crate::metrics::Population;
use flux_api::cluster::Identity;
use flux_api::cluster::validate::of_kueue;
use flux_api::crd::MiniCluster;
use flux_contract::invocation::REPLACED_VARIABLES;
use flux_contract::labels;
use futures::{FutureExt as _, Stream, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, ContainerStatus, Pod, PodSpec, PodStatus, Service,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, OwnerReference};
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::Event;
use kube::runtime::{Predicate as _, PredicateConfig, WatchStreamExt as _, predicates, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::future::ready;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::mem;
use std::sync::Arc;

/// The metadata of a MiniCluster, without the specification: one that cannot be parsed would stop the watch of all.
pub(crate) type MiniClusterMeta = PartialObjectMeta<MiniCluster>;

/// A label selector of objects that the operator creates, extended by `more`.
pub(crate) fn managed(more: &str) -> String {
    format!("{}={}{more}", labels::MANAGED_BY, labels::MANAGED_BY_VALUE)
}

pub(crate) const MINI_CLUSTER: &str = "MiniCluster";
pub(crate) const JOB: &str = "Job";

/// Objects in one page of a first list where the API server does not stream it. A whole page is in memory, and an
/// object may have 1.5 MiB.
const FIRST_LIST_PAGE: u32 = 20;
/// How often a streamed first list may begin without coming to its end.
const UNFINISHED_LISTS: u32 = 3;

/// Prefix of the operator's annotations.
const OUR_PREFIX: &str = "flux-framework.org/";
/// Label of a stored [`MiniClusterMeta`] with a hash of the labels and annotations that a reconcile reads.
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
    pub(crate) jobs: SharedKept<Job>,
    pub(crate) services: SharedKept<Service>,
    pub(crate) config_maps: SharedKept<ConfigMap>,
    pub(crate) services_pods: SharedKept<Pod>,
    pub(crate) leads: SharedKept<Pod>,
}

impl Writers {
    /// Removes the objects of a MiniCluster from the `stores` once nothing of its run is left to do or to report.
    pub(crate) fn forget_run(&self, stores: &Stores, identity: &Identity, job: Option<&str>) {
        let Identity { name, namespace, owner, .. } = identity;
        self.jobs.lock().forget(namespace, name.as_str(), &owner.uid);
        self.config_maps.lock().forget(namespace, &name.agent_config_map(), &owner.uid);
        // The Services with addresses are deleted; the headless one stays.
        self.services.lock().forget(namespace, name.as_str(), &owner.uid);
        let Some(job) = job else { return };
        for lead in stores.stored_leads_of(namespace, job) {
            self.leads.lock().forget(namespace, &lead.name_any(), job);
        }
    }
}

impl Stores {
    /// Empty stores, and their writers.
    pub(crate) fn new() -> (Self, Writers) {
        let (jobs, of_jobs) = Kept::shared();
        let (services, of_services) = Kept::shared();
        let (config_maps, of_config_maps) = Kept::shared();
        let (services_pods, of_services_pods) = Kept::shared();
        let (leads, of_leads) = Kept::shared();
        let writers = Writers {
            jobs: of_jobs,
            services: of_services,
            config_maps: of_config_maps,
            services_pods: of_services_pods,
            leads: of_leads,
        };
        (Self { jobs, services, config_maps, services_pods, leads }, writers)
    }

    /// The pods with index 0 of the Job with this uid; `None` before the first list, or if one is not stored whole.
    pub(crate) fn leads_of(&self, namespace: &str, job: &str) -> Option<Vec<Pod>> {
        if !is_complete(&self.leads) {
            return None;
        }
        let found = self.stored_leads_of(namespace, job);
        found.into_iter().map(|pod| is_whole(&*pod).then(|| (*pod).clone())).collect()
    }

    fn stored_leads_of(&self, namespace: &str, job: &str) -> Vec<Arc<Pod>> {
        self.leads.state_filter(|pod: &Pod| {
            pod.owner_references().iter().any(|owner| owner.uid == job)
                && pod.metadata.namespace.as_deref() == Some(namespace)
        })
    }

    /// True when the store is complete and has no pod of this name for `spec.services`.
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

/// True when the first list is complete. Only one task may wait for a store (kube-runtime 5.0.0, `DelayedInit`).
fn is_complete<K>(store: &Store<K>) -> bool
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    matches!(store.wait_until_ready().now_or_never(), Some(Ok(())))
}

/// Seconds after which the API server ends a watch; the next one continues there. Some load balancers drop longer
/// silent connections without closing them.
pub(crate) const WATCH: u32 = 20;

/// Watches all MiniClusters. The stream has those whose specification, or labels or annotations for a queue, changed.
/// Calls `synced` whenever the list is complete, and then removes deleted ones from the cache.
pub(crate) fn mini_clusters(
    api: Api<MiniClusterMeta>,
    cache: Arc<MiniClusterCache>,
    synced: impl Fn() + Send + 'static,
) -> (Store<MiniClusterMeta>, impl Stream<Item = watcher::Result<MiniClusterMeta>> + Send + 'static)
{
    let (store, writer) = reflector::store();
    let stored = store.clone();
    let stream = listed(api, watcher::Config::default())
        .default_backoff()
        .modify(|cluster| strip_metadata(&mut cluster.metadata))
        .reflect(writer)
        .inspect_ok(move |event| {
            if let Event::Delete(gone) = event {
                cache.forget(&namespaced_name(gone));
            }
            // A reconcile may have added an entry of one that was deleted meanwhile.
            let is_deleted = matches!(event, Event::Delete(_)) && cache.len() > stored.len();
            if is_deleted || matches!(event, Event::InitDone) {
                cache.retain(|namespace, name| {
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

/// Watches; the API server streams the first list object by object, so that one object is in memory. Where it cannot
/// (before Kubernetes 1.34, or with the feature `WatchList` off), the list comes in pages, as also where a stream does
/// not end in the time of a watch.
fn listed<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + DeserializeOwned + Clone + Debug + Send + 'static,
{
    let paged = watcher(api.clone(), config.clone().page_size(FIRST_LIST_PAGE));
    let mut begun = 0;
    let streams = move |event: &watcher::Result<Event<K>>| {
        match event {
            Ok(Event::Init) => begun += 1,
            Ok(Event::InitDone) => begun = 0,
            _ => {}
        }
        let is_refused = matches!(
            event,
            Err(watcher::Error::WatchStartFailed(kube::Error::Api(status)))
                if matches!(status.code, 400 | 422)
        );
        let works = !is_refused && begun <= UNFINISHED_LISTS;
        if !works {
            tracing::info!("the API server does not stream first lists: they come in pages");
        }
        ready(works)
    };
    watcher(api, config.streaming_lists()).take_while(streams).chain(paged)
}

/// A function that counts the MiniClusters in `store` for the metrics.
pub(crate) fn count(
    store: Store<MiniClusterMeta>,
    cache: Arc<MiniClusterCache>,
) -> impl Fn(&Population) {
    move |population| {
        let now = Timestamp::now();
        store.state().iter().for_each(|it| population.add(cache.known(&**it), now));
    }
}

/// Watches objects that `selector` selects and an object of kind `controller` owns, and keeps them in a store.
/// `strip` removes the fields that nobody reads, and returns the stage of the object.
pub(crate) fn controlled<K>(
    api: Api<K>,
    kept: &SharedKept<K>,
    selector: &str,
    controller: &'static str,
    strip: fn(&mut K) -> Stage,
) -> impl Stream<Item = watcher::Result<K>> + Send + 'static
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    K: Clone + Default + Debug + Send + Sync + 'static,
{
    let kept = Arc::clone(kept);
    listed(api, watcher::Config::default().timeout(WATCH).labels(selector))
        .default_backoff()
        .try_filter_map(move |event| ready(Ok(without_others(event, controller))))
        .map_ok(move |event| kept.lock().write(event, strip))
        .touched_objects()
}

/// Drops objects that no object of kind `controller` owns, and makes a deletion of an object that lost its owner.
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

/// True if an object of `kind` is an owner: a shared headless Service has owners, but no controller.
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

/// The MiniCluster of a Job's pod: the Job has its name.
pub(crate) fn cluster_of(pod: &Pod) -> Option<ObjectRef<MiniClusterMeta>> {
    let job = controller_of(pod, JOB)?;
    Some(ObjectRef::new(&job.name).within(pod.metadata.namespace.as_deref()?))
}

/// Keeps of a Job's template the restart policy, the names of containers, the images that are copied or mounted,
/// pod-level resources, device claims and scheduling gates.
pub(crate) fn strip_job(job: &mut Job) -> Stage {
    job.metadata.managed_fields = None;
    let stage = if is_finished(job) { Stage::Finished } else { Stage::Running };
    let Some(spec) = &mut job.spec else { return stage };
    (spec.selector, spec.success_policy) = (None, None);
    let Some(pod) = mem::take(&mut spec.template).spec else { return stage };
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
    stage
}

pub(crate) fn strip_service(service: &mut Service) -> Stage {
    service.metadata.managed_fields = None;
    Stage::Running
}

/// Removes the managed fields of a ConfigMap. The run is over once its end is recorded.
pub(crate) fn strip_config_map(config_map: &mut ConfigMap) -> Stage {
    config_map.metadata.managed_fields = None;
    let is_recorded = RunRecord::on(config_map).is_some_and(|run| run.end.is_some());
    if is_recorded { Stage::Finished } else { Stage::Running }
}

/// Keeps the status of a pod and its containers, its index, the operator's annotations, the number of pods before it,
/// and, for a pod that a kubelet may have refused, the times of status writes. A failed pod may have a successor that
/// is judged by it.
pub(crate) fn strip_pod(pod: &mut Pod) -> Stage {
    pod.spec = None;
    let times = pod.metadata.managed_fields.take().filter(|_| leaves_no_container(pod));
    pod.metadata.managed_fields = times.map(|entries| {
        let without_fields = |entry| ManagedFieldsEntry { fields_v1: None, ..entry };
        entries.into_iter().map(without_fields).collect()
    });
    let counts = REPLACED_VARIABLES.map(|(_, annotation)| annotation);
    let is_read = |key: &str| key.starts_with(OUR_PREFIX) || counts.contains(&key);
    let metadata = &mut pod.metadata;
    metadata.annotations.iter_mut().for_each(|all| all.retain(|key, _| is_read(key)));
    metadata.labels.iter_mut().for_each(|all| all.retain(|key, _| key == labels::COMPLETION_INDEX));
    let Some(status) = pod.status.take() else { return Stage::Running };
    let stage = match status.phase.as_deref() {
        Some("Succeeded") => Stage::Finished,
        Some("Failed") => Stage::Ended,
        _ => Stage::Running,
    };
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
        // The operator polls the demand of a lead at this address.
        pod_ip: status.pod_ip,
        reason: status.reason,
        start_time: status.start_time,
        ..PodStatus::default()
    });
    stage
}

/// Keeps the identity and the versions in a MiniCluster's metadata, and adds [`READ_HASH`].
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
