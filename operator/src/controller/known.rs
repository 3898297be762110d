//! What is known without asking the API server: what the watches have brought, as far as it is not
//! older than what the API server has answered since.

use super::kept::{Keep, Kept};
use super::waiting::Waiting;
use crate::crd::{MiniCluster, MiniClusterStatus};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource as _, ResourceExt};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// What the watch brings of a MiniCluster.
pub(super) type Marker = PartialObjectMeta<MiniCluster>;

/// The stores that the watches fill, of objects of ours alone.
pub(super) struct Stores {
    pub(super) jobs: Store<Kept<Job>>,
    pub(super) services: Store<Kept<Service>>,
    pub(super) config_maps: Store<Kept<ConfigMap>>,
    pub(super) companions: Store<Kept<Pod>>,
    pub(super) leads: Store<Kept<Pod>>,
    /// True once `companions` and `leads` hold all there are.
    pub(super) all_pods: AllPods,
}

/// Whether the watches of pods have brought all there are.
#[derive(Clone, Default)]
pub(super) struct AllPods {
    companions: Arc<AtomicBool>,
    leads: Arc<AtomicBool>,
}

impl AllPods {
    /// To be called when all companions are there.
    pub(super) fn companions(&self) -> impl Fn() + Send + 'static {
        noted(&self.companions)
    }

    /// To be called when all leads are there.
    pub(super) fn leads(&self) -> impl Fn() + Send + 'static {
        noted(&self.leads)
    }
}

fn noted(all: &Arc<AtomicBool>) -> impl Fn() + Send + 'static {
    let all = Arc::clone(all);
    move || all.store(true, Ordering::Release)
}

/// A kind that is watched whole.
pub(super) trait Watched: Keep + Clone + 'static {
    /// Where the watch puts it.
    fn store(stores: &Stores) -> &Store<Kept<Self>>;
}

impl Watched for Job {
    fn store(stores: &Stores) -> &Store<Kept<Self>> {
        &stores.jobs
    }
}

impl Watched for Service {
    fn store(stores: &Stores) -> &Store<Kept<Self>> {
        &stores.services
    }
}

impl Watched for ConfigMap {
    fn store(stores: &Stores) -> &Store<Kept<Self>> {
        &stores.config_maps
    }
}

/// Of the pods that are asked for by name: the companions.
impl Watched for Pod {
    fn store(stores: &Stores) -> &Store<Kept<Self>> {
        &stores.companions
    }
}

/// What is known without asking.
#[derive(Default)]
pub(super) struct Known {
    stores: OnceLock<Stores>,
    clusters: Mutex<HashMap<Name, Entry>>,
}

/// Namespace and name of a MiniCluster.
pub(super) type Name = (String, String);

/// What the API server has answered about one MiniCluster.
#[derive(Default)]
struct Entry {
    /// The MiniCluster.
    cluster: Option<Box<Kept<MiniCluster>>>,
    /// The newest version of each of its objects, by uid: a watch may bring older ones later.
    newest: HashMap<String, u64>,
    /// What kept its pods from starting when that was asked last.
    waiting: Option<Asked>,
    /// When its status was written last.
    reported: Option<Instant>,
}

/// What kept pods from starting when that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    when: Instant,
    /// The answer.
    pub(super) waiting: Option<Waiting>,
}

impl Known {
    /// Begins to use what the watches bring.
    pub(super) fn watch(&self, stores: Stores) {
        // Once for each process: a controller is run once.
        let _ = self.stores.set(stores);
    }

    /// The object `name` that a watch has brought, unless the API server has answered with a newer one.
    pub(super) fn object<K: Watched>(&self, cluster: &Name, name: &str) -> Option<K> {
        let place = ObjectRef::new(name).within(&cluster.0);
        let object = K::store(self.stores.get()?).get(&place)?;
        let (uid, version) = (object.uid()?, version(object.meta())?);
        let newest = self.clusters().get(cluster).and_then(|entry| entry.newest.get(&uid).copied());
        if newest.is_some_and(|newest| version < newest) { None } else { object.object() }
    }

    /// The pods with index 0 of the Job with this uid; nothing before the watch has brought all there
    /// are, or where one was not kept.
    pub(super) fn leads(&self, namespace: &str, job: &str) -> Option<Vec<Pod>> {
        let stores = self.stores.get().filter(|it| it.all_pods.leads.load(Ordering::Acquire))?;
        // Each reconcile asks this of every lead there is: nothing is copied for the answer.
        let of_job = |pod: &Kept<Pod>| {
            pod.owner_references().iter().any(|owner| owner.uid == job)
                && pod.meta().namespace.as_deref() == Some(namespace)
        };
        let found = stores.leads.state_filter(of_job);
        found.iter().map(|pod| pod.object()).collect()
    }

    /// True when `cluster` has no companion.
    pub(super) fn has_no_companion(&self, cluster: &Name, name: &str) -> bool {
        let place = ObjectRef::new(name).within(&cluster.0);
        self.stores.get().is_some_and(|stores| {
            stores.all_pods.companions.load(Ordering::Acquire)
                && stores.companions.get(&place).is_none()
        })
    }

    /// Notes what the API server has answered about an object of `cluster`.
    pub(super) fn answered(&self, cluster: &Name, object: &impl ResourceExt) {
        let (Some(uid), Some(version)) = (object.uid(), version(object.meta())) else { return };
        let mut clusters = self.clusters();
        let newest = &mut clusters.entry(cluster.clone()).or_default().newest;
        let newest = newest.entry(uid).or_default();
        *newest = version.max(*newest);
    }

    /// What keeps the pods of `cluster` from starting, if that was asked less than `patience` ago: no
    /// watch tells of it, and a start brings many reconciles.
    pub(super) fn waiting(&self, cluster: &Name, patience: Duration) -> Option<Asked> {
        self.stores.get()?;
        let asked = self.clusters().get(cluster)?.waiting.clone()?;
        (asked.when.elapsed() < patience).then_some(asked)
    }

    /// Notes what keeps the pods of `cluster` from starting.
    pub(super) fn asked(&self, cluster: &Name, waiting: Option<Waiting>) {
        let mut clusters = self.clusters();
        let asked = Asked { when: Instant::now(), waiting };
        clusters.entry(cluster.clone()).or_default().waiting = Some(asked);
    }

    /// The MiniCluster as it was read or written last, if nobody has changed it since.
    pub(super) fn cluster(&self, marker: &Marker) -> Option<MiniCluster> {
        let watched = version(marker.meta())?;
        let clusters = self.clusters();
        let read = clusters.get(&name_of(marker))?.cluster.as_ref()?;
        let is_same = read.uid() == marker.uid() && version(read.meta())? >= watched;
        if is_same { read.object() } else { None }
    }

    /// Notes the MiniCluster that was read.
    pub(super) fn read(&self, cluster: &MiniCluster) {
        let kept = Kept::new(cluster.clone()).ok().map(Box::new);
        self.clusters().entry(name_of(cluster)).or_default().cluster = kept;
    }

    /// Notes what the API server has answered to a new status. Of a MiniCluster that could not be read,
    /// or whose specification has changed meanwhile, nothing is known then.
    pub(super) fn reported(&self, metadata: ObjectMeta, status: Option<MiniClusterStatus>) {
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let name = (namespace, metadata.name.clone().unwrap_or_default());
        let mut clusters = self.clusters();
        let Some(entry) = clusters.get_mut(&name) else { return };
        entry.reported = Some(Instant::now());
        let is_same = |read: &MiniCluster| {
            read.metadata.uid == metadata.uid && read.metadata.generation == metadata.generation
        };
        let read = entry.cluster.take().and_then(|read| read.object()).filter(is_same);
        let reported = read.map(|read| MiniCluster { metadata, spec: read.spec, status });
        entry.cluster = reported.and_then(|cluster| Kept::new(cluster).ok()).map(Box::new);
    }

    /// How much of `pause` is left since the status of `cluster` was written.
    pub(super) fn pause(&self, cluster: &Name, pause: Duration) -> Option<Duration> {
        self.stores.get()?;
        let reported = self.clusters().get(cluster)?.reported?;
        // A pause that ends this moment is over: no time would pass until the next look.
        pause.checked_sub(reported.elapsed()).filter(|rest| !rest.is_zero())
    }

    /// Forgets a MiniCluster that is gone.
    pub(super) fn forget(&self, cluster: &Name) {
        self.clusters().remove(cluster);
    }

    /// Forgets all but those of which `exists` is true, by namespace and name. A watch that begins anew says nothing of
    /// those that have gone meanwhile, and a reconcile under way notes something of one that has.
    pub(super) fn retain(&self, exists: impl Fn(&str, &str) -> bool) {
        self.clusters().retain(|(namespace, name), _| exists(namespace, name));
    }

    /// True when something is known of a MiniCluster.
    #[cfg(test)]
    pub(super) fn has(&self, cluster: &Name) -> bool {
        self.clusters().contains_key(cluster)
    }

    fn clusters(&self) -> MutexGuard<'_, HashMap<Name, Entry>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn name_of(cluster: &impl ResourceExt) -> Name {
    (cluster.namespace().unwrap_or_default(), cluster.name_any())
}

/// Resource versions of one kind can be compared as numbers (KEP-5504); of one that is no number
/// nothing is known.
fn version(metadata: &ObjectMeta) -> Option<u64> {
    metadata.resource_version.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::PartialObjectMetaExt as _;
    use kube::runtime::{reflector, watcher};
    use serde_json::json;

    fn cluster() -> Name {
        ("apps".to_owned(), "hello".to_owned())
    }

    fn metadata(uid: &str, version: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some("hello".to_owned()),
            namespace: Some("apps".to_owned()),
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_owned()),
            generation: Some(1),
            ..ObjectMeta::default()
        }
    }

    fn job(uid: &str, version: &str) -> Job {
        Job { metadata: metadata(uid, version), ..Job::default() }
    }

    fn marker(uid: &str, version: &str) -> Marker {
        metadata(uid, version).into_response_partial()
    }

    fn read(version: &str) -> MiniCluster {
        let mut object: MiniCluster = serde_json::from_value(json!({
            "apiVersion": "flux-framework.org/v1alpha2", "kind": "MiniCluster", "metadata": {},
            "spec": { "containers": [] },
        }))
        .unwrap();
        object.metadata = metadata("u", version);
        object
    }

    /// What is known once the watches have brought `jobs` and `leads`.
    fn known(jobs: &[Job], leads: &[Pod], all_leads: bool) -> Known {
        let known = Known::default();
        let filled = Stores {
            jobs: filled(jobs),
            services: filled(&[]),
            config_maps: filled(&[]),
            companions: filled(&[]),
            leads: filled(leads),
            all_pods: AllPods { leads: Arc::new(AtomicBool::new(all_leads)), ..AllPods::default() },
        };
        known.watch(filled);
        known
    }

    fn filled<K: Watched>(objects: &[K]) -> Store<Kept<K>> {
        let (store, mut writer) = reflector::store();
        for object in objects {
            let kept = Kept::new(object.clone()).unwrap();
            writer.apply_watcher_event(&watcher::Event::Apply(kept));
        }
        store
    }

    #[test]
    fn a_watch_that_lags_behind_an_answer_is_not_believed() {
        let known = known(&[job("j", "100")], &[], true);
        let version_of = |known: &Known| known.object::<Job>(&cluster(), "hello");
        assert!(version_of(&known).is_some());
        known.answered(&cluster(), &job("j", "99"));
        assert!(version_of(&known).is_some());
        known.answered(&cluster(), &job("j", "101"));
        assert!(version_of(&known).is_none());
        known.answered(&cluster(), &job("j", "7"));
        assert!(version_of(&known).is_none(), "an older answer does not make it newer");
    }

    #[test]
    fn what_was_answered_of_an_object_says_nothing_of_the_next_one_of_its_name() {
        let known = known(&[job("new", "100")], &[], true);
        known.answered(&cluster(), &job("old", "101"));
        assert!(known.object::<Job>(&cluster(), "hello").is_some());
    }

    #[test]
    fn nothing_is_known_before_the_watches_begin_or_by_a_version_that_is_no_number() {
        assert!(Known::default().object::<Job>(&cluster(), "hello").is_none());
        let known = known(&[job("j", "opaque")], &[], true);
        assert!(known.object::<Job>(&cluster(), "hello").is_none());
        known.read(&read("opaque"));
        assert!(known.cluster(&marker("u", "opaque")).is_none());
    }

    #[test]
    fn why_pods_wait_is_asked_now_and_then() {
        let waiting = Some(Waiting { message: "no node".to_owned(), lasts: true });
        let (known, hour) = (known(&[], &[], true), Duration::from_hours(1));
        assert_eq!(known.waiting(&cluster(), hour), None);
        known.asked(&cluster(), waiting.clone());
        assert_eq!(known.waiting(&cluster(), hour).unwrap().waiting, waiting);
        assert_eq!(known.waiting(&cluster(), Duration::ZERO), None);
        let unwatched = Known::default();
        unwatched.asked(&cluster(), waiting);
        assert_eq!(unwatched.waiting(&cluster(), hour), None, "everything is asked for");
    }

    #[test]
    fn a_minicluster_is_kept_without_its_history() {
        let known = Known::default();
        let mut object = read("10");
        let annotations = [
            ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
            ("example.org/purpose", "demonstration"),
        ];
        object.metadata.annotations =
            Some(annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        object.metadata.managed_fields = Some(vec![]);
        known.read(&object);
        let kept = known.cluster(&marker("u", "10")).unwrap();
        assert_eq!(kept.annotations().keys().collect::<Vec<_>>(), ["example.org/purpose"]);
        assert_eq!(kept.metadata.managed_fields, None);
        known.reported(
            ObjectMeta { resource_version: Some("11".to_owned()), ..object.metadata },
            None,
        );
        let kept = known.cluster(&marker("u", "11")).unwrap();
        assert_eq!((kept.annotations().len(), kept.managed_fields().len()), (1, 0));
    }

    #[test]
    fn leads_are_known_by_their_job_once_all_are() {
        let lead: Pod = serde_json::from_value(json!({ "metadata": {
            "name": "hello-0-a", "namespace": "apps",
            "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": "hello", "uid": "j" }],
        } }))
        .unwrap();
        let leads = [lead];
        assert!(known(&[], &leads, false).leads("apps", "j").is_none());
        let known = known(&[], &leads, true);
        assert_eq!(known.leads("apps", "j").unwrap().len(), 1);
        assert!(known.leads("apps", "another").unwrap().is_empty());
        assert!(known.leads("elsewhere", "j").unwrap().is_empty());
    }

    #[test]
    fn a_minicluster_is_known_until_the_watch_tells_of_a_newer_one() {
        let known = Known::default();
        known.read(&read("10"));
        assert!(known.cluster(&marker("u", "10")).is_some());
        assert!(known.cluster(&marker("u", "11")).is_none());
        assert!(known.cluster(&marker("another", "10")).is_none());
        known.reported(metadata("u", "11"), None);
        assert!(known.cluster(&marker("u", "11")).is_some());
        known.forget(&cluster());
        assert!(known.cluster(&marker("u", "11")).is_none());
    }

    #[test]
    fn what_does_not_exist_is_forgotten() {
        let known = Known::default();
        known.read(&read("10"));
        known.retain(|namespace, name| (namespace, name) == ("apps", "hello"));
        assert!(known.cluster(&marker("u", "10")).is_some());
        known.retain(|_, _| false);
        assert!(!known.has(&cluster()));
    }

    #[test]
    fn a_status_that_was_written_to_another_generation_makes_nothing_known() {
        let known = Known::default();
        known.read(&read("10"));
        let edited = ObjectMeta { generation: Some(2), ..metadata("u", "12") };
        known.reported(edited, None);
        assert!(known.cluster(&marker("u", "12")).is_none());
    }

    #[test]
    fn a_status_of_what_could_not_be_read_makes_nothing_known() {
        let known = Known::default();
        known.answered(&cluster(), &job("j", "1"));
        known.reported(metadata("u", "11"), None);
        assert!(known.cluster(&marker("u", "11")).is_none());
    }
}
