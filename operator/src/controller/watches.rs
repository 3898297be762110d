//! What the controller watches.

use super::context::Context;
use super::kept::{Keep, Kept, take_identity};
use super::known::{Marker, name_of};
use crate::cluster::validate::of_kueue;
use flux_contract::labels;
use futures::{Stream, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::core::ObjectMeta;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Predicate as _, PredicateConfig, WatchStreamExt as _, predicates, watcher};
use kube::{Api, ResourceExt as _};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

/// Everything the operator makes carries this label, so that it hears of nothing else.
pub(super) const MANAGED: &str = "app.kubernetes.io/managed-by=flux-operator";
/// Only leads are watched: a lead's end must be noticed at once, a worker's is the Job's business.
pub(super) const LEADS: &str =
    "app.kubernetes.io/managed-by=flux-operator,batch.kubernetes.io/job-completion-index=0";
/// The companions: their end must be noticed, and why they do not start.
pub(super) const COMPANIONS: &str = "app.kubernetes.io/managed-by=flux-operator,job-index=services";

/// Objects of a page when a watch begins with a list. A whole page is held in memory as text.
const PAGE: u32 = 20;

/// How all watches begin.
pub(super) fn watch_config() -> watcher::Config {
    watcher::Config::default().page_size(PAGE)
}

/// Every MiniCluster, as metadata, and the changes of their specifications and of what a queue reads of them. Status
/// writes do not pass: they are our own. A MiniCluster that cannot be read does not stop the watch of the
/// others, because only its metadata is read here.
///
/// `synced` is not told by the store: of two that wait for it, which the controller is one of, only
/// the last is woken (kube-runtime 5.0.0, `DelayedInit`).
pub(super) fn markers(
    api: Api<Marker>,
    context: Arc<Context>,
    synced: impl Fn() + Send + 'static,
) -> (Store<Marker>, impl Stream<Item = Result<Marker, watcher::Error>> + Send + 'static) {
    let (store, writer) = reflector::store();
    let stream = watcher(api, watch_config())
        .default_backoff()
        .modify(|marker| {
            let for_queue = hash_for_queue(&marker.metadata);
            marker.metadata = take_identity(&mut marker.metadata);
            marker.annotations_mut().insert(FOR_QUEUE.to_owned(), for_queue.to_string());
        })
        .reflect(writer)
        .inspect_ok(move |event| match event {
            watcher::Event::InitDone => synced(),
            watcher::Event::Delete(marker) => context.known.forget(&name_of(marker)),
            watcher::Event::Init | watcher::Event::InitApply(_) | watcher::Event::Apply(_) => {}
        })
        .applied_objects()
        .predicate_filter(
            predicates::generation.combine(predicates::annotations),
            PredicateConfig::default(),
        );
    (store, stream)
}

/// The only annotation of a MiniCluster as it is watched: [`hash_for_queue`].
const FOR_QUEUE: &str = "flux-framework.org/for-queue";

/// One number for all labels and annotations that a queue reads: what else is there, however much, is not kept.
fn hash_for_queue(metadata: &ObjectMeta) -> u64 {
    let mut hasher = DefaultHasher::new();
    for entries in [&metadata.labels, &metadata.annotations] {
        of_kueue(entries.as_ref()).collect::<Vec<_>>().hash(&mut hasher);
    }
    hasher.finish()
}

/// The objects that `labels` select, and each that is changed or goes. `complete` is called when all there are
/// have been brought.
pub(super) fn ours<K>(
    api: Api<Kept<K>>,
    labels: &str,
    complete: impl Fn() + Send + 'static,
) -> (Store<Kept<K>>, impl Stream<Item = Result<Kept<K>, watcher::Error>> + Send + 'static)
where
    K: Keep + Clone + Debug + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let stream = watcher(api, watch_config().labels(labels))
        .default_backoff()
        .reflect(writer)
        .inspect_ok(move |event| {
            if matches!(event, watcher::Event::InitDone) {
                complete();
            }
        })
        .touched_objects();
    (store, stream)
}

/// The MiniCluster that a pod belongs to.
pub(super) fn cluster_of(pod: &Kept<Pod>) -> Option<ObjectRef<Marker>> {
    let name = pod.object()?.labels().get(labels::NAME)?.clone();
    Some(ObjectRef::new(&name).within(&pod.namespace()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::{departures, index_labels};

    #[test]
    fn the_watches_select_what_the_objects_are_labelled_with() {
        let managed = format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_VALUE);
        assert_eq!(MANAGED, managed);
        assert_eq!(LEADS, format!("{managed},{}=0", labels::COMPLETION_INDEX));
        let companions = format!("{managed},{}={}", labels::JOB_INDEX, labels::COMPANION_INDEX);
        assert_eq!(COMPANIONS, companions);
        let index = labels::COMPLETION_INDEX;
        assert_eq!(departures::WORKERS, format!("{managed},{index},{index}!=0"));
        assert_eq!(index_labels::UNLABELLED, format!("{LEADS},!{}", labels::JOB_INDEX));
    }
}
