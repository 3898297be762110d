//! What the operator itself has read or written of each MiniCluster a moment ago, and need not ask for again.

use super::pending_check::Check;
use crate::metrics::{Observed, Summary};
use flux_api::crd::{MiniCluster, MiniClusterStatus};
use kube::ResourceExt;
use kube::core::ObjectMeta;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Largest MiniCluster that is remembered, in bytes of JSON. A larger one is read by each reconcile.
const SIZE_LIMIT: usize = 16 * 1024;
/// MiniClusters that are remembered at most. While there are half as many, those that have finished are, too: of these
/// there are ever more, and hardly any is read again.
const COUNT_LIMIT: usize = 4000;

/// Where `kubectl apply` notes what it has applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

pub(crate) type Name = (String, String);

#[derive(Default)]
pub(crate) struct Recent(Mutex<HashMap<Name, Entry>>);

#[derive(Default)]
struct Entry {
    /// The MiniCluster as it was read or written last, as JSON: as a value it takes several times as much.
    cluster: Option<Box<str>>,
    check: Option<Check>,
    reported: Option<Instant>,
    summary: Option<Summary>,
    /// Generation of the last reconcile that has ended.
    reconciled: Option<i64>,
}

impl Recent {
    /// The MiniCluster, if nobody has changed it since it was read or written.
    pub(crate) fn cluster(&self, watched: &impl ResourceExt) -> Option<MiniCluster> {
        let version = version(watched.meta())?;
        let cluster = self.0.lock().get(&name_of(watched))?.cluster()?;
        let is_current = self::version(&cluster.metadata).is_some_and(|read| read >= version);
        (is_current && cluster.uid() == watched.uid()).then_some(cluster)
    }

    pub(crate) fn set_cluster(&self, cluster: &MiniCluster) {
        let mut entries = self.0.lock();
        let has_room = has_room(&entries, &name_of(cluster), cluster.status.as_ref());
        let entry = entries.entry(name_of(cluster)).or_default();
        entry.cluster = if has_room { to_text(cluster.clone()) } else { None };
    }

    /// Remembers what the API server has answered to a new status, unless the specification was changed meanwhile.
    pub(crate) fn set_status(&self, metadata: ObjectMeta, status: Option<MiniClusterStatus>) {
        let name = metadata.name.clone().unwrap_or_default();
        let mut entries = self.0.lock();
        let name = (metadata.namespace.clone().unwrap_or_default(), name);
        let has_room = has_room(&entries, &name, status.as_ref());
        let Some(entry) = entries.get_mut(&name) else { return };
        entry.reported = Some(Instant::now());
        let is_same = |read: &MiniCluster| {
            read.metadata.uid == metadata.uid && read.metadata.generation == metadata.generation
        };
        let read = entry.cluster().filter(is_same);
        let written = read.map(|read| MiniCluster { metadata, spec: read.spec, status });
        entry.cluster = written.filter(|_| has_room).and_then(to_text);
    }

    /// What was found out last about the pods of `cluster` that do not start: no watch brings it.
    pub(crate) fn check(&self, cluster: &Name) -> Option<Check> {
        self.0.lock().get(cluster)?.check.clone()
    }

    pub(crate) fn set_check(&self, cluster: &Name, check: Check) {
        self.0.lock().entry(cluster.clone()).or_default().check = Some(check);
    }

    /// How much of `pause` is left since the status of `cluster` was written.
    pub(crate) fn pause(&self, cluster: &Name, pause: Duration) -> Option<Duration> {
        let reported = self.0.lock().get(cluster)?.reported?;
        // A pause that ends this moment is over: no time would pass until the next reconcile.
        pause.checked_sub(reported.elapsed()).filter(|rest| !rest.is_zero())
    }

    pub(crate) fn set_summary(&self, cluster: &Name, summary: Option<Summary>) {
        self.0.lock().entry(cluster.clone()).or_default().summary = summary;
    }

    /// Notes that a reconcile has ended, whatever came of it.
    pub(crate) fn set_reconciled(&self, watched: &impl ResourceExt) {
        if let Some(entry) = self.0.lock().get_mut(&name_of(watched)) {
            entry.reconciled = watched.meta().generation;
        }
    }

    /// What the metrics count of a MiniCluster.
    pub(crate) fn observed(&self, watched: &impl ResourceExt) -> Observed {
        let entries = self.0.lock();
        let entry = entries.get(&name_of(watched));
        let reconciled = entry.and_then(|entry| entry.reconciled);
        Observed {
            summary: entry.and_then(|entry| entry.summary),
            is_pending: reconciled < watched.meta().generation,
        }
    }

    pub(crate) fn forget(&self, cluster: &Name) {
        self.0.lock().remove(cluster);
    }

    /// Forgets all but those of which `exists` is true, by namespace and name. A watch that begins anew brings no
    /// event of those that have gone meanwhile, and a reconcile under way remembers something of one that has.
    pub(crate) fn retain(&self, exists: impl Fn(&str, &str) -> bool) {
        self.0.lock().retain(|(namespace, name), _| exists(namespace, name));
    }

    #[cfg(test)]
    pub(crate) fn has(&self, cluster: &Name) -> bool {
        self.0.lock().contains_key(cluster)
    }
}

/// Whether the MiniCluster `name`, which has this status, may be remembered beside the others.
fn has_room(
    entries: &HashMap<Name, Entry>,
    name: &Name,
    status: Option<&MiniClusterStatus>,
) -> bool {
    let is_over = status.is_some_and(MiniClusterStatus::is_over);
    let limit = if is_over { COUNT_LIMIT / 2 } else { COUNT_LIMIT };
    let others = entries.iter().filter(|(other, entry)| *other != name && entry.cluster.is_some());
    others.count() < limit
}

impl Entry {
    fn cluster(&self) -> Option<MiniCluster> {
        serde_json::from_str(self.cluster.as_deref()?).ok()
    }
}

fn to_text(mut cluster: MiniCluster) -> Option<Box<str>> {
    cluster.metadata.managed_fields = None;
    // The specification once more.
    cluster.annotations_mut().remove(LAST_APPLIED);
    let text = serde_json::to_string(&cluster).ok().filter(|text| text.len() <= SIZE_LIMIT);
    text.map(String::into_boxed_str)
}

pub(crate) fn name_of(cluster: &impl ResourceExt) -> Name {
    (cluster.namespace().unwrap_or_default(), cluster.name_any())
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

    fn watched(uid: &str, version: &str) -> PartialObjectMeta<MiniCluster> {
        metadata(uid, version, 1).into_response_partial()
    }

    /// What is remembered after the MiniCluster was read at `version`.
    fn read(version: &str, script: usize) -> Recent {
        let command = json!({ "command": "x".repeat(script) });
        let mut object = mini_cluster(&json!({ "containers": [command] }));
        object.metadata = metadata("u", version, 1);
        let recent = Recent::default();
        recent.set_cluster(&object);
        recent
    }

    #[test]
    fn a_minicluster_is_cached_until_it_changes_or_goes() {
        let recent = read("10", 1);
        for (uid, version, is_current) in
            [("u", "10", true), ("u", "11", false), ("v", "10", false)]
        {
            assert_eq!(recent.cluster(&watched(uid, version)).is_some(), is_current);
        }
        recent.set_status(metadata("u", "11", 1), None);
        assert!(recent.cluster(&watched("u", "11")).is_some());
        recent.retain(|namespace, name| (namespace, name) == ("apps", "hello"));
        assert!(recent.cluster(&watched("u", "11")).is_some());
        recent.set_status(metadata("u", "12", 2), None);
        assert!(recent.cluster(&watched("u", "12")).is_none(), "another specification");
        let recent = read("10", 1);
        recent.retain(|_, _| false);
        assert!(recent.cluster(&watched("u", "10")).is_none());
    }

    #[test]
    fn finished_miniclusters_leave_room_for_running_ones() {
        let recent = read("10", 1);
        let object = recent.cluster(&watched("u", "10")).unwrap();
        let state =
            |state| Some(MiniClusterStatus { state: Some(state), ..MiniClusterStatus::default() });
        let remember = |name: String, status| {
            let mut one = MiniCluster { status, ..object.clone() };
            one.metadata.name = Some(name);
            recent.set_cluster(&one);
            recent.cluster(&one).is_some()
        };
        let finished = (0..5000).filter(|n| remember(format!("f-{n}"), state(State::Complete)));
        assert_eq!(finished.count(), COUNT_LIMIT / 2 - 1);
        for number in 0..100 {
            recent.set_summary(&("apps".to_owned(), format!("s-{number}")), None);
            assert!(remember(format!("r-{number}"), state(State::Running)));
        }
    }

    #[test]
    fn opaque_versions_and_large_objects_are_not_cached() {
        assert!(read("opaque", 1).cluster(&watched("u", "opaque")).is_none());
        assert!(read("10", SIZE_LIMIT).cluster(&watched("u", "10")).is_none());
    }
}
