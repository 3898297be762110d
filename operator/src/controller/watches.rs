//! What the controller watches, and what it keeps of that.
//!
//! Everybody may make objects with the labels that the watches select. The stores keep those that say that the operator
//! has made them: whatever is controlled by a MiniCluster, or by a Job.

use super::context::Context;
use super::kept::{Keep, Kept};
use super::known::Marker;
use futures::{Stream, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::Event;
use kube::runtime::{Predicate as _, PredicateConfig, WatchStreamExt as _, predicates, watcher};
use kube::{Api, Resource};
use std::fmt::Debug;
use std::future::ready;
use std::sync::Arc;

/// Everything the operator makes carries this label, so that it hears of nothing else.
pub(super) const MANAGED: &str = "app.kubernetes.io/managed-by=flux-operator";
/// Only leads are watched: a lead's end must be noticed at once, a worker's is the Job's business.
pub(super) const LEADS: &str =
    "app.kubernetes.io/managed-by=flux-operator,batch.kubernetes.io/job-completion-index=0";
/// The companions: their end must be noticed, and why they do not start.
pub(super) const COMPANIONS: &str = "app.kubernetes.io/managed-by=flux-operator,job-index=services";

/// Kind of what controls the objects of a MiniCluster.
pub(super) const MINI_CLUSTER: &str = "MiniCluster";
/// Kind of what controls the pods of a Job.
pub(super) const JOB: &str = "Job";

/// Objects of a page when a watch begins with a list. A whole page is held in memory twice as text, of each watch, and
/// an object has up to 1.5 MiB.
const PAGE: u32 = 5;

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
    api: Api<Kept<Marker>>,
    context: Arc<Context>,
    synced: impl Fn() + Send + 'static,
) -> (Store<Marker>, impl Stream<Item = watcher::Result<Marker>> + Send + 'static) {
    let (store, writer) = reflector::store();
    let watched = store.clone();
    let stream = watcher(api, watch_config())
        .default_backoff()
        .map_ok(|event| {
            map(event, |marker| {
                let mut marker = marker.metadata();
                marker.metadata.owner_references = None;
                marker
            })
        })
        .reflect(writer)
        .inspect_ok(move |event| {
            if matches!(event, Event::InitDone | Event::Delete(_)) {
                context.known.retain(|namespace, name| {
                    watched.get(&ObjectRef::new(name).within(namespace)).is_some()
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

/// The objects that `labels` select and an object of kind `owner` controls, and each that is changed or goes.
/// `complete` is called when all there are have been brought.
pub(super) fn ours<K>(
    api: Api<Kept<K>>,
    labels: &str,
    owner: &'static str,
    complete: impl Fn() + Send + 'static,
) -> (Store<Kept<K>>, impl Stream<Item = watcher::Result<Kept<K>>> + Send + 'static)
where
    K: Keep + Clone + Debug + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    let stream = events(api, watch_config().labels(labels), owner)
        .reflect(writer)
        .inspect_ok(move |event| {
            if matches!(event, Event::InitDone) {
                complete();
            }
        })
        .touched_objects();
    (store, stream)
}

/// What a watch brings of the objects that an object of kind `owner` controls.
pub(super) fn events<K>(
    api: Api<Kept<K>>,
    config: watcher::Config,
    owner: &'static str,
) -> impl Stream<Item = watcher::Result<Event<Kept<K>>>> + Send + 'static
where
    K: Keep + Clone + Debug + Send + Sync + 'static,
{
    let events = watcher(api, config).default_backoff();
    events.try_filter_map(move |event| ready(Ok(controlled(event, owner))))
}

/// Of what a watch brings, what concerns objects that an object of kind `owner` controls. One that is no longer
/// controlled is gone.
fn controlled<K: Keep>(event: Event<Kept<K>>, owner: &str) -> Option<Event<Kept<K>>> {
    match event {
        Event::Apply(object) if object.controller(owner).is_none() => Some(Event::Delete(object)),
        Event::InitApply(object) if object.controller(owner).is_none() => None,
        event @ (Event::Apply(_)
        | Event::Delete(_)
        | Event::Init
        | Event::InitApply(_)
        | Event::InitDone) => Some(event),
    }
}

/// The same event of what `change` makes of the object.
fn map<A, B>(event: Event<A>, change: impl FnOnce(A) -> B) -> Event<B> {
    match event {
        Event::Apply(object) => Event::Apply(change(object)),
        Event::Delete(object) => Event::Delete(change(object)),
        Event::InitApply(object) => Event::InitApply(change(object)),
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
    }
}

/// The MiniCluster that a pod of a Job belongs to: the Job has its name.
pub(super) fn cluster_of(pod: &Kept<Pod>) -> Option<ObjectRef<Marker>> {
    let job = pod.controller(JOB)?;
    Some(ObjectRef::new(&job.name).within(pod.meta().namespace.as_deref()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::departures;
    use crate::controller::fixtures::{defaults, images};
    use crate::crd::MiniCluster;
    use flux_contract::labels;
    use futures::StreamExt as _;
    use http::{Request, Response};
    use k8s_openapi::api::batch::v1::Job;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn the_watches_select_what_the_objects_are_labelled_with() {
        let managed = format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_VALUE);
        assert_eq!(MANAGED, managed);
        assert_eq!(LEADS, format!("{managed},{}=0", labels::COMPLETION_INDEX));
        let companions = format!("{managed},{}={}", labels::JOB_INDEX, labels::COMPANION_INDEX);
        assert_eq!(COMPANIONS, companions);
        let index = labels::COMPLETION_INDEX;
        assert_eq!(departures::WORKERS, format!("{managed},{index},{index}!=0"));
    }

    #[tokio::test]
    async fn a_minicluster_that_has_gone_without_a_word_is_forgotten() {
        let (service, mut server) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
        let client = Client::new(service, "apps");
        let context =
            Arc::new(Context::new(client, None, Arc::default(), images("agent"), defaults()));
        let gone = ("apps".to_owned(), "gone".to_owned());
        context.known.asked(&gone, None);
        let list = json!({ "metadata": { "resourceVersion": "1" }, "items": [] });
        let answer = Response::new(Body::from(list.to_string().into_bytes()));
        let synced = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&synced);
        let api = Api::all(context.client.clone());
        let (_, stream) =
            markers(api, Arc::clone(&context), move || told.store(true, Ordering::Release));
        let listed = async {
            let (_, respond) = server.next_request().await.unwrap();
            respond.send_response(answer);
            // The list is complete when the watch begins.
            server.next_request().await.unwrap();
        };
        let mut stream = pin!(stream);
        tokio::select! {
            _ = stream.next() => unreachable!(),
            () = listed => {}
        }
        assert!(synced.load(Ordering::Acquire));
        assert!(!context.known.has(&gone));
    }

    #[test]
    fn what_the_operator_has_not_made_is_not_kept() {
        assert_eq!((MINI_CLUSTER, JOB), (&*MiniCluster::kind(&()), &*Job::kind(&())));
        let map = |owner: &str, controller: bool| -> Kept<ConfigMap> {
            let owner = json!({
                "apiVersion": "v1", "kind": owner, "name": "a", "uid": "u", "controller": controller,
            });
            let metadata = json!({ "name": "map", "ownerReferences": [owner] });
            serde_json::from_value(json!({ "metadata": metadata })).unwrap()
        };
        let of = |event| controlled(event, MINI_CLUSTER);
        let ours = || map(MINI_CLUSTER, true);
        assert!(matches!(of(Event::Apply(ours())), Some(Event::Apply(_))));
        assert!(matches!(of(Event::InitApply(ours())), Some(Event::InitApply(_))));
        for other in [map("Deployment", true), map(MINI_CLUSTER, false)] {
            assert!(of(Event::InitApply(other.clone())).is_none());
            // It may have been ours.
            assert!(matches!(of(Event::Apply(other)), Some(Event::Delete(_))));
        }
        assert!(matches!(of(Event::InitDone), Some(Event::InitDone)));
    }
}
