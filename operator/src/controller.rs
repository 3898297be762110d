//! The controller: which changes it hears of, and what happens then.
//!
//! `reconcile` is the whole of a reconcile: observe, decide, apply, report. `plan`, with `course`,
//! `build` and the `*_change` modules, `waiting` and `status` are functions of values; the others act
//! and decide nothing.

mod agent_change;
mod apply;
pub mod build;
mod change;
mod companion;
mod context;
mod course;
mod ended_run;
mod error;
mod events;
mod failures;
#[cfg(test)]
pub(crate) mod fixtures;
mod guard;
pub mod index_labels;
mod job_change;
mod observe;
mod plan;
mod read;
mod reconcile;
mod report;
mod status;
mod waiting;

pub use build::Images;
pub use context::{Context, Scope};
pub use error::Error;

use crate::health::UnderWay;
use context::{Marker, api, notice};
use flux_contract::labels;
use futures::{FutureExt as _, Stream, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::core::PartialObjectMeta;
use kube::runtime::controller::{Action, Config};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Controller, PredicateConfig, WatchStreamExt as _, predicates, watcher};
use kube::{Api, ResourceExt as _};
use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest time to say in a status that a reconcile has failed when it could not say so itself.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Reconciles one MiniCluster and notes how it went.
pub async fn reconcile_one(marker: Arc<Marker>, context: Arc<Context>) -> Result<Action, Error> {
    let work = reconcile::reconcile(Arc::clone(&marker), Arc::clone(&context));
    supervise(&marker, &context, Box::pin(work)).await
}

/// Does `work`, a reconcile of the MiniCluster `marker`, so that whatever it does the others go on: it
/// has a deadline, and a panic is an error of this MiniCluster. Either is told in its status.
pub async fn supervise<T>(
    marker: &Marker,
    context: &Context,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let under_way = UnderWay::new(&context.health);
    let begin = Instant::now();
    let result = guard::guarded(guard::LIMIT, work).await;
    if let Err(error @ (Error::TimedOut { .. } | Error::Internal)) = &result {
        let report = Box::pin(report::report_interrupted(context, marker, error));
        let reported = guard::guarded(LAST_WORDS, report).await;
        if let Err(error) = reported {
            tracing::warn!(error = error.chain(), "report why the reconcile was interrupted");
        }
    }
    drop(under_way);
    context.metrics.observe(begin.elapsed(), result.as_ref().err().map(Error::category));
    if result.is_ok() {
        context.failures.forget(marker.namespace().as_deref(), &marker.name_any());
    }
    result
}

/// Tries again after a wait that doubles with each failure in a row.
#[expect(clippy::needless_pass_by_value, reason = "the signature that `Controller::run` asks for")]
fn retry(marker: Arc<Marker>, error: &Error, context: Arc<Context>) -> Action {
    let (failures, wait) = context.failures.failed(marker.as_ref());
    let (name, namespace) = (marker.name_any(), marker.namespace().unwrap_or_default());
    let (category, error) = (error.category(), error.chain());
    tracing::warn!(name, namespace, category, error, failures, ?wait, "try again later");
    Action::requeue(wait)
}

/// Watches and reconciles until `shutdown` resolves. `synced` is called whenever every MiniCluster
/// that exists is known.
pub async fn run(
    context: Arc<Context>,
    scope: Scope,
    synced: impl Fn() + Send + 'static,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let client = context.client.clone();
    let namespace = scope.namespace.as_deref();
    let shutdown = shutdown.shared();
    let labels = index_labels::run(Arc::clone(&context), &scope, shutdown.clone());
    let (store, markers) = markers(api(&client, namespace), synced);
    let ours = || watcher::Config::default().labels(MANAGED);
    let clusters = Controller::for_stream(markers, store)
        .with_config(Config::default().concurrency(scope.concurrency))
        .owns(api::<Job>(&client, namespace), ours())
        .owns(api::<PartialObjectMeta<Service>>(&client, namespace), ours())
        .owns(api::<PartialObjectMeta<ConfigMap>>(&client, namespace), ours())
        .owns(
            api::<PartialObjectMeta<Pod>>(&client, namespace),
            watcher::Config::default().labels(COMPANIONS),
        )
        .watches(
            api::<PartialObjectMeta<Pod>>(&client, namespace),
            watcher::Config::default().labels(LEADS),
            |pod| cluster_of(&pod),
        )
        .graceful_shutdown_on(shutdown)
        .run(reconcile_one, retry, Arc::clone(&context))
        .for_each(|result| {
            notice(result, &context.failures);
            ready(())
        });
    futures::join!(clusters, labels);
}

/// Everything the operator makes carries this label, so that it hears of nothing else.
const MANAGED: &str = "app.kubernetes.io/managed-by=flux-operator";
/// Only leads are watched, and of them only the metadata: a lead's end must be noticed at once,
/// a worker's is the Job's business.
const LEADS: &str =
    "app.kubernetes.io/managed-by=flux-operator,batch.kubernetes.io/job-completion-index=0";

/// The companions: their end must be noticed, and why they do not start.
const COMPANIONS: &str = "app.kubernetes.io/managed-by=flux-operator,job-index=services";

/// Every MiniCluster, as metadata, and the changes of their specifications. Status writes do not
/// pass: they are our own. A MiniCluster that cannot be read does not stop the watch of the
/// others, because only its metadata is read here.
///
/// `synced` is not told by the store: of two that wait for it, which the controller is one of, only
/// the last is woken (kube-runtime 5.0.0, `DelayedInit`).
fn markers(
    api: Api<Marker>,
    synced: impl Fn() + Send + 'static,
) -> (Store<Marker>, impl Stream<Item = Result<Marker, watcher::Error>> + Send + 'static) {
    let (store, writer) = reflector::store();
    let stream = watcher(api, watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .inspect_ok(move |event| {
            if matches!(event, watcher::Event::InitDone) {
                synced();
            }
        })
        .applied_objects()
        .predicate_filter(predicates::generation, PredicateConfig::default());
    (store, stream)
}

/// The MiniCluster that a pod belongs to.
fn cluster_of(pod: &PartialObjectMeta<Pod>) -> Option<ObjectRef<Marker>> {
    let name = pod.labels().get(labels::NAME)?;
    Some(ObjectRef::new(name).within(&pod.namespace()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watches_select_what_the_objects_are_labelled_with() {
        let managed = format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_VALUE);
        assert_eq!(MANAGED, managed);
        assert_eq!(LEADS, format!("{managed},{}=0", labels::COMPLETION_INDEX));
        let companions = format!("{managed},{}={}", labels::JOB_INDEX, labels::COMPANION_INDEX);
        assert_eq!(COMPANIONS, companions);
        let (index, own) = (labels::COMPLETION_INDEX, labels::JOB_INDEX);
        assert_eq!(index_labels::UNLABELLED, format!("{managed},{index},!{own}"));
    }
}
