//! The controller: which changes it hears of, and what happens then.
//!
//! `reconcile` is the whole of a look at one MiniCluster: observe -> validate -> build -> apply ->
//! status. Validate, course, build, the `*_change` modules, waiting and status are functions of
//! values; the others act and decide nothing that the specification determines.

pub mod agent_change;
pub mod apply;
pub mod build;
pub mod course;
pub mod ended_run;
mod error;
pub mod events;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod index_labels;
pub mod job_change;
pub mod observe;
mod read;
mod reconcile;
mod report;
pub mod services_change;
mod services_pod;
pub mod status;
pub mod waiting;

pub use build::Images;
pub use error::Error;

use crate::cluster::Defaults;
use crate::crd::MiniCluster;
use crate::metrics::Metrics;
use flux_contract::labels;
use futures::{FutureExt as _, Stream, StreamExt as _, TryStreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::core::PartialObjectMeta;
use kube::runtime::controller::{Action, Config};
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Controller, PredicateConfig, WatchStreamExt as _, predicates, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Reconciles that run at the same time; never two of one MiniCluster.
const CONCURRENCY: u16 = 8;
/// Wait after the first failure; doubled with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Longest wait between two attempts.
const LAST_RETRY: Duration = Duration::from_mins(5);

/// What every reconcile works with.
pub struct Context {
    client: Client,
    reporter: Reporter,
    metrics: Arc<Metrics>,
    images: Images,
    defaults: Defaults,
    /// Failures in a row, by MiniCluster.
    failures: Mutex<HashMap<ObjectRef<Marker>, u32>>,
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
            failures: Mutex::default(),
        }
    }

    /// Publishes Events. One for each report: it would take an Event with another text for the same
    /// one come again, and drop the text.
    fn recorder(&self) -> Recorder {
        Recorder::new(self.client.clone(), self.reporter.clone())
    }

    /// Notes an outcome; the answer is how many failures in a row that makes.
    fn count(&self, marker: &Marker, failed: bool) -> u32 {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let key = ObjectRef::from_obj(marker);
        if failed {
            let count = failures.entry(key).or_default();
            *count = count.saturating_add(1);
            *count
        } else {
            failures.remove(&key);
            0
        }
    }
}

/// Looks at one MiniCluster and notes how it went.
pub async fn reconcile_one(marker: Arc<Marker>, context: Arc<Context>) -> Result<Action, Error> {
    let begin = Instant::now();
    let look = reconcile::reconcile(Arc::clone(&marker), Arc::clone(&context));
    let result = Box::pin(look).await;
    context.metrics.observe(begin.elapsed(), result.as_ref().err().map(Error::category));
    if result.is_ok() {
        context.count(&marker, false);
    }
    result
}

/// Tries again after a wait that doubles with each failure in a row.
#[expect(clippy::needless_pass_by_value, reason = "the signature that `Controller::run` asks for")]
fn retry(marker: Arc<Marker>, error: &Error, context: Arc<Context>) -> Action {
    let failures = context.count(&marker, true);
    let wait = backoff(failures);
    let (name, namespace) = (marker.name_any(), marker.namespace().unwrap_or_default());
    let (category, error) = (error.category(), error.chain());
    tracing::warn!(name, namespace, category, error, failures, ?wait, "try again later");
    Action::requeue(wait)
}

fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    FIRST_RETRY.saturating_mul(1 << doublings).min(LAST_RETRY)
}

/// Watches and reconciles until `shutdown` resolves. `namespace`: only that one. `synced` is called
/// whenever every MiniCluster that exists is known.
pub async fn run(
    context: Arc<Context>,
    namespace: Option<&str>,
    synced: impl Fn() + Send + 'static,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let client = context.client.clone();
    let shutdown = shutdown.shared();
    let labels = index_labels::run(Arc::clone(&context), namespace, shutdown.clone());
    let (store, markers) = markers(api(&client, namespace), synced);
    let ours = || watcher::Config::default().labels(MANAGED);
    let clusters = Controller::for_stream(markers, store)
        .with_config(Config::default().concurrency(CONCURRENCY))
        .owns(api::<Job>(&client, namespace), ours())
        .owns(api::<PartialObjectMeta<Service>>(&client, namespace), ours())
        .owns(api::<PartialObjectMeta<ConfigMap>>(&client, namespace), ours())
        .owns(
            api::<PartialObjectMeta<Pod>>(&client, namespace),
            watcher::Config::default().labels(SERVICES),
        )
        .watches(
            api::<PartialObjectMeta<Pod>>(&client, namespace),
            watcher::Config::default().labels(LEADS),
            |pod| cluster_of(&pod),
        )
        .graceful_shutdown_on(shutdown)
        .run(reconcile_one, retry, context)
        .for_each(|result| async {
            // The outcome of a reconcile is told where it happens; this is about the watches.
            if let Err(kube::runtime::controller::Error::QueueError(error)) = result {
                tracing::warn!(%error, "watch");
            }
        });
    futures::join!(clusters, labels);
}

/// Everything the operator makes carries this label, so that it hears of nothing else.
const MANAGED: &str = "app.kubernetes.io/managed-by=flux-operator";
/// Only leads are watched, and of them only the metadata: a lead's end must be noticed at once,
/// a worker's is the Job's business.
const LEADS: &str =
    "app.kubernetes.io/managed-by=flux-operator,batch.kubernetes.io/job-completion-index=0";

/// The services pods: their end must be noticed, and why they do not start.
const SERVICES: &str = "app.kubernetes.io/managed-by=flux-operator,job-index=services";

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
    fn waits_double_up_to_five_minutes() {
        assert_eq!(backoff(1), Duration::from_secs(1));
        assert_eq!(backoff(4), Duration::from_secs(8));
        assert_eq!(backoff(9), Duration::from_secs(256));
        assert_eq!(backoff(u32::MAX), LAST_RETRY);
    }

    #[test]
    fn the_watches_select_what_the_objects_are_labelled_with() {
        let managed = format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_VALUE);
        assert_eq!(MANAGED, managed);
        assert_eq!(LEADS, format!("{managed},{}=0", labels::COMPLETION_INDEX));
        let services = format!("{managed},{}={}", labels::JOB_INDEX, labels::SERVICES_INDEX);
        assert_eq!(SERVICES, services);
        let (index, own) = (labels::COMPLETION_INDEX, labels::JOB_INDEX);
        assert_eq!(index_labels::UNLABELLED, format!("{managed},{index},!{own}"));
    }
}
