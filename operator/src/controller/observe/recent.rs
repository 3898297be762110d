//! What the operator itself has read or written of each MiniCluster a moment ago, and need not ask for again.

use super::waiting::Waiting;
use crate::crd::{MiniCluster, MiniClusterStatus};
use kube::ResourceExt;
use kube::core::ObjectMeta;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Largest MiniCluster that is remembered, in bytes of JSON. A larger one is read by each reconcile.
pub(in crate::controller) const SIZE_LIMIT: usize = 16 * 1024;
/// MiniClusters that are remembered at most.
const COUNT_LIMIT: usize = 4000;

/// Namespace and name of a MiniCluster.
pub(in crate::controller) type Name = (String, String);

/// What is remembered of all MiniClusters.
#[derive(Default)]
pub(in crate::controller) struct Recent(Mutex<HashMap<Name, Entry>>);

#[derive(Default)]
struct Entry {
    /// The MiniCluster as it was read or written last, as JSON: as a value it takes several times as much.
    cluster: Option<Box<str>>,
    waiting: Option<Asked>,
    /// When its status was written last.
    reported: Option<Instant>,
}

/// What kept the pods of a MiniCluster from starting when that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::controller) struct Asked {
    when: Instant,
    /// The answer.
    pub(in crate::controller) waiting: Option<Waiting>,
}

impl Recent {
    /// The MiniCluster, if nobody has changed it since it was read or written.
    pub(in crate::controller) fn cluster(&self, watched: &impl ResourceExt) -> Option<MiniCluster> {
        let version = version(watched.meta())?;
        let cluster = self.entries().get(&name_of(watched))?.cluster()?;
        let is_current = self::version(&cluster.metadata).is_some_and(|read| read >= version);
        (is_current && cluster.uid() == watched.uid()).then_some(cluster)
    }

    /// Remembers the MiniCluster that was read.
    pub(in crate::controller) fn set_cluster(&self, cluster: &MiniCluster) {
        let mut entries = self.entries();
        let has_room = entries.len() < COUNT_LIMIT;
        let entry = entries.entry(name_of(cluster)).or_default();
        entry.cluster = if has_room { to_text(cluster.clone()) } else { None };
    }

    /// Remembers what the API server has answered to a new status, unless the specification was changed meanwhile.
    pub(in crate::controller) fn set_status(
        &self,
        metadata: ObjectMeta,
        status: Option<MiniClusterStatus>,
    ) {
        let name = metadata.name.clone().unwrap_or_default();
        let mut entries = self.entries();
        let name = (metadata.namespace.clone().unwrap_or_default(), name);
        let Some(entry) = entries.get_mut(&name) else { return };
        entry.reported = Some(Instant::now());
        let is_same = |read: &MiniCluster| {
            read.metadata.uid == metadata.uid && read.metadata.generation == metadata.generation
        };
        let read = entry.cluster().filter(is_same);
        let written = read.map(|read| MiniCluster { metadata, spec: read.spec, status });
        entry.cluster = written.and_then(to_text);
    }

    /// What keeps the pods of `cluster` from starting, if that was asked less than `pause` ago: no watch brings it,
    /// and a start brings many reconciles.
    pub(in crate::controller) fn waiting(&self, cluster: &Name, pause: Duration) -> Option<Asked> {
        let asked = self.entries().get(cluster)?.waiting.clone()?;
        (asked.when.elapsed() < pause).then_some(asked)
    }

    /// Remembers what keeps the pods of `cluster` from starting.
    pub(in crate::controller) fn set_waiting(&self, cluster: &Name, waiting: Option<Waiting>) {
        let asked = Asked { when: Instant::now(), waiting };
        self.entries().entry(cluster.clone()).or_default().waiting = Some(asked);
    }

    /// How much of `pause` is left since the status of `cluster` was written.
    pub(in crate::controller) fn pause(&self, cluster: &Name, pause: Duration) -> Option<Duration> {
        let reported = self.entries().get(cluster)?.reported?;
        // A pause that ends this moment is over: no time would pass until the next reconcile.
        pause.checked_sub(reported.elapsed()).filter(|rest| !rest.is_zero())
    }

    /// Forgets a MiniCluster.
    pub(in crate::controller) fn forget(&self, cluster: &Name) {
        self.entries().remove(cluster);
    }

    /// Forgets all but those of which `exists` is true, by namespace and name. A watch that begins anew brings no event
    /// of those that have gone meanwhile, and a reconcile under way remembers something of one that has.
    pub(in crate::controller) fn retain(&self, exists: impl Fn(&str, &str) -> bool) {
        self.entries().retain(|(namespace, name), _| exists(namespace, name));
    }

    /// True when something is remembered of a MiniCluster.
    #[cfg(test)]
    pub(in crate::controller) fn has(&self, cluster: &Name) -> bool {
        self.entries().contains_key(cluster)
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Name, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn cluster(&self) -> Option<MiniCluster> {
        serde_json::from_str(self.cluster.as_deref()?).ok()
    }
}

fn to_text(mut cluster: MiniCluster) -> Option<Box<str>> {
    cluster.metadata.managed_fields = None;
    serde_json::to_string(&cluster).ok().map(String::into_boxed_str)
}

/// Namespace and name of a MiniCluster.
pub(in crate::controller) fn name_of(cluster: &impl ResourceExt) -> Name {
    (cluster.namespace().unwrap_or_default(), cluster.name_any())
}

/// Resource versions of one kind can be compared as numbers (KEP-5504).
fn version(metadata: &ObjectMeta) -> Option<u64> {
    metadata.resource_version.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::{PartialObjectMeta, PartialObjectMetaExt as _};
    use serde_json::json;

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

    fn watched(uid: &str, version: &str) -> PartialObjectMeta<MiniCluster> {
        metadata(uid, version).into_response_partial()
    }

    /// What is remembered after the MiniCluster was read at `version`.
    fn read(version: &str) -> Recent {
        let mut object: MiniCluster = serde_json::from_value(json!({
            "apiVersion": "flux-framework.org/v1alpha2", "kind": "MiniCluster", "metadata": {},
            "spec": { "containers": [] },
        }))
        .unwrap();
        object.metadata = metadata("u", version);
        let recent = Recent::default();
        recent.set_cluster(&object);
        recent
    }

    #[test]
    fn a_minicluster_is_remembered_until_the_watch_brings_a_newer_one() {
        let recent = read("10");
        assert!(recent.cluster(&watched("u", "10")).is_some());
        assert!(recent.cluster(&watched("u", "11")).is_none());
        assert!(recent.cluster(&watched("another", "10")).is_none());
        recent.set_status(metadata("u", "11"), None);
        assert!(recent.cluster(&watched("u", "11")).is_some());
        recent.forget(&("apps".to_owned(), "hello".to_owned()));
        assert!(recent.cluster(&watched("u", "11")).is_none());
    }

    #[test]
    fn a_version_that_is_no_number_cannot_be_compared() {
        assert!(read("opaque").cluster(&watched("u", "opaque")).is_none());
    }

    #[test]
    fn a_status_that_was_written_to_another_generation_is_not_remembered() {
        let recent = read("10");
        recent.set_status(ObjectMeta { generation: Some(2), ..metadata("u", "12") }, None);
        assert!(recent.cluster(&watched("u", "12")).is_none());
    }

    #[test]
    fn why_pods_wait_is_asked_now_and_then() {
        let waiting = Some(Waiting { message: "no node".to_owned(), lasts: true });
        let (recent, hello) = (Recent::default(), ("apps".to_owned(), "hello".to_owned()));
        assert_eq!(recent.waiting(&hello, Duration::from_hours(1)), None);
        recent.set_waiting(&hello, waiting.clone());
        assert_eq!(recent.waiting(&hello, Duration::from_hours(1)).unwrap().waiting, waiting);
        assert_eq!(recent.waiting(&hello, Duration::ZERO), None);
    }

    #[test]
    fn what_does_not_exist_is_forgotten() {
        let recent = read("10");
        recent.retain(|namespace, name| (namespace, name) == ("apps", "hello"));
        assert!(recent.cluster(&watched("u", "10")).is_some());
        recent.retain(|_, _| false);
        assert!(recent.cluster(&watched("u", "10")).is_none());
    }
}
