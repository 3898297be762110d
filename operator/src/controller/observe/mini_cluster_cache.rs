//! A cache of each MiniCluster as the operator has last read or written it, with the results of its last reconcile.

use super::pending_check::PendingCheck;
use crate::metrics::{KnownMiniCluster, Summary};
use flux_api::crd::{MiniCluster, MiniClusterStatus};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Largest MiniCluster that is cached, in bytes of JSON. Each reconcile reads a larger one from the API server.
const TEXT_LIMIT: usize = 16 * 1024;
/// Most MiniClusters that are cached. Those whose run has just ended are cached only while there are half as many.
const COUNT_LIMIT: usize = 4000;

/// Annotation in which `kubectl apply` keeps the applied object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

pub(crate) type NamespacedName = (String, String);

#[derive(Default)]
pub(crate) struct MiniClusterCache(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    all: HashMap<NamespacedName, Entry>,
    /// How many of them have a text.
    texts: usize,
}

#[derive(Default)]
struct Entry {
    /// The MiniCluster as JSON, which takes much less memory than the value.
    text: Option<Box<str>>,
    check: Option<PendingCheck>,
    reported: Option<Instant>,
    summary: Option<Summary>,
    /// When the run has ended.
    ended: Option<Timestamp>,
    /// Generation of the last reconcile that has ended.
    reconciled: Option<i64>,
}

impl MiniClusterCache {
    /// The MiniCluster, if its version is at least that of `meta`.
    pub(crate) fn get(&self, meta: &impl ResourceExt) -> Option<MiniCluster> {
        let version = version(meta.meta())?;
        let mini_cluster = self.0.lock().all.get(&namespaced_name(meta))?.mini_cluster()?;
        let is_current = self::version(&mini_cluster.metadata).is_some_and(|read| read >= version);
        (is_current && mini_cluster.uid() == meta.uid()).then_some(mini_cluster)
    }

    pub(crate) fn put(&self, mini_cluster: &MiniCluster) {
        let (mut entries, name) = (self.0.lock(), namespaced_name(mini_cluster));
        let has_room = entries.has_room(&name, mini_cluster.status.as_ref());
        let text = if has_room { to_text(mini_cluster.clone()) } else { None };
        entries.set_text(name, text);
    }

    /// Caches the status that the API server has returned for a write, unless the specification changed meanwhile.
    pub(crate) fn set_status(&self, metadata: ObjectMeta, status: Option<MiniClusterStatus>) {
        let name = metadata.name.clone().unwrap_or_default();
        let mut entries = self.0.lock();
        let name = (metadata.namespace.clone().unwrap_or_default(), name);
        let has_room = entries.has_room(&name, status.as_ref());
        let Some(entry) = entries.all.get_mut(&name) else { return };
        entry.reported = Some(Instant::now());
        let is_same = |read: &MiniCluster| {
            read.metadata.uid == metadata.uid && read.metadata.generation == metadata.generation
        };
        let read = entry.mini_cluster().filter(is_same);
        let written = read.map(|read| MiniCluster { metadata, spec: read.spec, status });
        let text = written.filter(|_| has_room).and_then(to_text);
        entries.set_text(name, text);
    }

    /// The last check why pods do not start.
    pub(crate) fn check(&self, name: &NamespacedName) -> Option<PendingCheck> {
        self.0.lock().all.get(name)?.check.clone()
    }

    pub(crate) fn set_check(&self, name: &NamespacedName, check: PendingCheck) {
        self.0.lock().all.entry(name.clone()).or_default().check = Some(check);
    }

    /// How much of `interval` is left since the last status write.
    pub(crate) fn remaining(&self, name: &NamespacedName, interval: Duration) -> Option<Duration> {
        let reported = self.0.lock().all.get(name)?.reported?;
        // A requeue after no time at all would run in a loop.
        interval.checked_sub(reported.elapsed()).filter(|remaining| !remaining.is_zero())
    }

    pub(crate) fn set_summary(&self, name: &NamespacedName, summary: Option<Summary>) {
        self.0.lock().all.entry(name.clone()).or_default().summary = summary;
    }

    /// Notes when the run has ended, if it has.
    pub(crate) fn set_end(&self, name: &NamespacedName, ended: Option<Timestamp>) {
        if let Some(entry) = self.0.lock().all.get_mut(name) {
            entry.ended = ended;
        }
    }

    /// The names of the finished MiniClusters in `namespace` except for the newest `kept`, the oldest first.
    pub(crate) fn surplus(&self, namespace: &str, kept: usize) -> Vec<String> {
        let entries = self.0.lock();
        let of_namespace = entries.all.iter().filter(|((of, _), _)| of == namespace);
        let ended = of_namespace.filter_map(|((_, name), entry)| Some((entry.ended?, name)));
        let mut ended: Vec<_> = ended.collect();
        ended.sort_unstable();
        ended.truncate(ended.len().saturating_sub(kept));
        ended.into_iter().map(|(_, name)| name.clone()).collect()
    }

    /// Notes that a reconcile has ended, even if it failed.
    pub(crate) fn set_reconciled(&self, meta: &impl ResourceExt) {
        if let Some(entry) = self.0.lock().all.get_mut(&namespaced_name(meta)) {
            entry.reconciled = meta.meta().generation;
        }
    }

    pub(crate) fn known(&self, meta: &impl ResourceExt) -> KnownMiniCluster {
        let entries = self.0.lock();
        let entry = entries.all.get(&namespaced_name(meta));
        let reconciled = entry.and_then(|entry| entry.reconciled);
        KnownMiniCluster {
            summary: entry.and_then(|entry| entry.summary),
            is_pending: reconciled < meta.meta().generation,
        }
    }

    pub(crate) fn forget(&self, name: &NamespacedName) {
        let mut entries = self.0.lock();
        let removed = entries.all.remove(name);
        entries.texts -= usize::from(removed.is_some_and(|entry| entry.text.is_some()));
    }

    /// Forgets all of a finished MiniCluster but what the metrics count.
    pub(crate) fn forget_run(&self, name: &NamespacedName) {
        let mut entries = self.0.lock();
        entries.set_text(name.clone(), None);
        if let Some(entry) = entries.all.get_mut(name) {
            (entry.check, entry.reported) = (None, None);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().all.len()
    }

    /// Forgets all MiniClusters for which `exists` is false. A restarted watch brings no event of those that were
    /// deleted meanwhile, and a reconcile may add an entry of one that is already deleted.
    pub(crate) fn retain(&self, exists: impl Fn(&str, &str) -> bool) {
        let mut entries = self.0.lock();
        entries.all.retain(|(namespace, name), _| exists(namespace, name));
        entries.texts = entries.all.values().filter(|entry| entry.text.is_some()).count();
    }

    #[cfg(test)]
    pub(crate) fn has(&self, name: &NamespacedName) -> bool {
        self.0.lock().all.contains_key(name)
    }
}

impl Entries {
    /// Whether the MiniCluster `name`, which has this status, may be cached beside the others.
    fn has_room(&self, name: &NamespacedName, status: Option<&MiniClusterStatus>) -> bool {
        let is_over = status.is_some_and(MiniClusterStatus::is_over);
        let limit = if is_over { COUNT_LIMIT / 2 } else { COUNT_LIMIT };
        let own = self.all.get(name).is_some_and(|entry| entry.text.is_some());
        self.texts - usize::from(own) < limit
    }

    fn set_text(&mut self, name: NamespacedName, text: Option<Box<str>>) {
        let entry = self.all.entry(name).or_default();
        self.texts -= usize::from(entry.text.is_some());
        self.texts += usize::from(text.is_some());
        entry.text = text;
    }
}

impl Entry {
    fn mini_cluster(&self) -> Option<MiniCluster> {
        serde_json::from_str(self.text.as_deref()?).ok()
    }
}

fn to_text(mut mini_cluster: MiniCluster) -> Option<Box<str>> {
    mini_cluster.metadata.managed_fields = None;
    // This annotation repeats the specification.
    mini_cluster.annotations_mut().remove(LAST_APPLIED);
    let text = serde_json::to_string(&mini_cluster).ok().filter(|text| text.len() <= TEXT_LIMIT);
    text.map(String::into_boxed_str)
}

pub(crate) fn namespaced_name(mini_cluster: &impl ResourceExt) -> NamespacedName {
    (mini_cluster.namespace().unwrap_or_default(), mini_cluster.name_any())
}

/// Resource versions of one kind can be compared as numbers (KEP-5504).
fn version(metadata: &ObjectMeta) -> Option<u64> {
    metadata.resource_version.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures::mini_cluster;
    use flux_api::crd::State;
    use kube::core::{PartialObjectMeta, PartialObjectMetaExt as _};
    use serde_json::json;

    fn metadata(uid: &str, version: &str, generation: i64) -> ObjectMeta {
        ObjectMeta {
            name: Some("hello".to_owned()),
            namespace: Some("apps".to_owned()),
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_owned()),
            generation: Some(generation),
            ..ObjectMeta::default()
        }
    }

    fn meta(uid: &str, version: &str) -> PartialObjectMeta<MiniCluster> {
        metadata(uid, version, 1).into_response_partial()
    }

    fn read(version: &str, script: usize) -> MiniClusterCache {
        let command = json!({ "command": "x".repeat(script) });
        let mut object = mini_cluster(&json!({ "containers": [command] }));
        object.metadata = metadata("u", version, 1);
        let cache = MiniClusterCache::default();
        cache.put(&object);
        cache
    }

    #[test]
    fn a_minicluster_is_cached_until_it_changes_or_goes() {
        let cache = read("10", 1);
        for (uid, version, is_current) in
            [("u", "10", true), ("u", "11", false), ("v", "10", false)]
        {
            assert_eq!(cache.get(&meta(uid, version)).is_some(), is_current);
        }
        cache.set_status(metadata("u", "11", 1), None);
        assert!(cache.get(&meta("u", "11")).is_some());
        cache.retain(|namespace, name| (namespace, name) == ("apps", "hello"));
        assert!(cache.get(&meta("u", "11")).is_some());
        cache.set_status(metadata("u", "12", 2), None);
        assert!(cache.get(&meta("u", "12")).is_none(), "another specification");
        let cache = read("10", 1);
        cache.retain(|_, _| false);
        assert!(cache.get(&meta("u", "10")).is_none());
    }

    #[test]
    fn finished_miniclusters_leave_room_for_running_ones() {
        let cache = read("10", 1);
        let object = cache.get(&meta("u", "10")).unwrap();
        let state =
            |state| Some(MiniClusterStatus { state: Some(state), ..MiniClusterStatus::default() });
        let is_cached = |name: String, status| {
            let mut one = MiniCluster { status, ..object.clone() };
            one.metadata.name = Some(name);
            cache.put(&one);
            cache.get(&one).is_some()
        };
        let finished = (0..5000).filter(|n| is_cached(format!("f-{n}"), state(State::Complete)));
        assert_eq!(finished.count(), COUNT_LIMIT / 2 - 1);
        for number in 0..COUNT_LIMIT / 2 {
            cache.forget_run(&("apps".to_owned(), format!("f-{number}")));
        }
        assert_eq!(cache.0.lock().texts, 1, "that of the one that was read first");
        for number in 0..100 {
            cache.set_summary(&("apps".to_owned(), format!("s-{number}")), None);
            assert!(is_cached(format!("r-{number}"), state(State::Running)));
        }
    }

    #[test]
    fn the_oldest_ends_beyond_those_that_are_kept_are_surplus() {
        let cache = MiniClusterCache::default();
        for (namespace, name, second) in
            [("a", "new", 30), ("a", "old", 10), ("b", "other", 1), ("a", "middle", 20)]
        {
            let name = (namespace.to_owned(), name.to_owned());
            cache.set_summary(&name, None);
            cache.set_end(&name, Timestamp::from_second(second).ok());
        }
        cache.set_summary(&("a".to_owned(), "runs".to_owned()), None);
        assert_eq!(cache.surplus("a", 1), ["old", "middle"]);
        assert_eq!((cache.surplus("a", 3).len(), cache.surplus("b", 1).len()), (0, 0));
        cache.set_end(&("a".to_owned(), "old".to_owned()), None);
        assert_eq!(cache.surplus("a", 1), ["middle"]);
    }

    #[test]
    fn opaque_versions_and_large_objects_are_not_cached() {
        assert!(read("opaque", 1).get(&meta("u", "opaque")).is_none());
        assert!(read("10", TEXT_LIMIT).get(&meta("u", "10")).is_none());
    }
}
