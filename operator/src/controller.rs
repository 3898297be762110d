//! The controller: which changes it hears of, and what happens then.
//!
//! `reconcile` is the whole of a reconcile: observe, decide, apply, report. `plan`, with `course`,
//! `build`, `install` and the `*_change` modules, `waiting` and `status` are functions of values; the others act
//! and decide nothing.

pub mod agent_change;
mod apply;
pub mod build;
mod change;
mod companion;
mod course;
mod ended_run;
mod error;
mod events;
mod failures;
#[cfg(test)]
pub(crate) mod fixtures;
mod guard;
mod image_volumes;
pub mod index_labels;
mod install;
mod job_change;
mod observe;
mod plan;
mod read;
mod reconcile;
mod report;
mod status;
mod waiting;

pub use build::Images;
pub use error::Error;

use crate::cluster::Defaults;
use crate::crd::MiniCluster;
use crate::health::{Health, UnderWay};
use crate::metrics::Metrics;
use failures::Failures;
use flux_contract::labels;
use futures::{FutureExt as _, Stream, StreamExt as _, TryStreamExt as _};
use image_volumes::ImageVolumes;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::core::PartialObjectMeta;
use kube::runtime::controller::{Action, Config};
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Controller, PredicateConfig, WatchStreamExt as _, predicates, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest time to say in a status that a reconcile has failed when it could not say so itself.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// What every reconcile works with.
pub struct Context {
    client: Client,
    reporter: Reporter,
    metrics: Arc<Metrics>,
    images: Images,
    defaults: Defaults,
    health: Arc<Health>,
    /// Whether pods can have them.
    image_volumes: ImageVolumes,
    /// Of each MiniCluster.
    failures: Failures,
    /// Of each pod that should get its label.
    label_failures: Failures,
}

/// All that is kept in memory of a MiniCluster.
type Marker = PartialObjectMeta<MiniCluster>;

impl Context {
    /// A context that acts through `client`; `instance` names this operator's pod in Events.
    pub fn new(
        client: Client,
        instance: Option<String>,
        metrics: Arc<Metrics>,
        images: Images,
        defaults: Defaults,
    ) -> Self {
        Self {
            reporter: Reporter { controller: apply::FIELD_MANAGER.to_owned(), instance },
            client,
            metrics,
            images,
            defaults,
            health: Arc::default(),
            image_volumes: ImageVolumes::default(),
            failures: Failures::default(),
            label_failures: Failures::default(),
        }
    }

    /// Publishes Events. One for each report: it would take an Event with another text for the same
    /// one come again, and drop the text.
    fn recorder(&self) -> Recorder {
        Recorder::new(self.client.clone(), self.reporter.clone())
    }

    /// Whether the reconciles get anywhere.
    pub fn health(&self) -> Arc<Health> {
        Arc::clone(&self.health)
    }
}

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

/// Where to reconcile, and how much at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The only namespace; all of them unless given.
    pub namespace: Option<String>,
    /// Reconciles that run at the same time, never two of one MiniCluster; as many pods are
    /// labelled besides.
    pub concurrency: u16,
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

/// What the controller tells of itself; the outcome of a reconcile is told where it happens.
fn notice<T>(
    result: Result<T, kube::runtime::controller::Error<Error, watcher::Error>>,
    failures: &Failures,
) {
    use kube::runtime::controller::Error as Fault;
    match result {
        // It was to be tried again, and is gone.
        Err(Fault::ObjectNotFound(gone)) => failures.forget(gone.namespace.as_deref(), &gone.name),
        Err(Fault::QueueError(error)) => tracing::warn!(%error, "watch"),
        Err(Fault::RunnerError(error)) => tracing::error!(%error, "run the controller"),
        Err(Fault::ReconcilerFailed(..)) | Ok(_) => {}
    }
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

fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    namespace.map_or_else(
        || Api::all(client.clone()),
        |namespace| Api::namespaced(client.clone(), namespace),
    )
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
