//! The controller: its watches, and the loop that reconciles. [`reconcile`] runs the stages of one reconcile:
//! `observe` reads, `decide` and `status` are functions of values, `apply` and `report` write.

mod apply;
#[cfg(test)]
mod cases;
mod context;
mod decide;
mod error;
mod failures;
#[cfg(test)]
pub(crate) mod fixtures;
mod guard;
mod job_ext;
mod observe;
mod pod_ext;
mod reconcile;
mod report;
mod run_record;
mod status;
mod surplus;

pub use context::{Context, Scope};
pub use error::Error;
#[cfg(test)]
pub(crate) use observe::stores::WATCH;

use context::api;
use failures::FIRST_RETRY;
use flux_contract::labels;
use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::runtime::Controller;
use kube::runtime::controller::{Action, Config, Error as RunError};
use observe::stores::{
    JOB, MINI_CLUSTER, MiniClusterMeta, cluster_of, controlled, count, managed, mini_clusters,
    strip_config_map, strip_job, strip_pod, strip_service,
};
use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Least time between two log lines about failures of one MiniCluster, after the first line.
const FAILURE_LOG_INTERVAL: Duration = Duration::from_mins(1);
/// Timeout for the status write that reports an interrupted reconcile.
const INTERRUPTION_REPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Reconciles one MiniCluster and records the outcome in metrics and failure counts.
pub async fn reconcile_one(
    meta: Arc<MiniClusterMeta>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    let work = reconcile::reconcile(Arc::clone(&meta), Arc::clone(&context));
    supervise(&meta, &context, Box::pin(work)).await
}

/// Runs `work`, a reconcile of one MiniCluster, with a deadline, and turns a panic into an error, so that other
/// MiniClusters are still reconciled. Reports either in the status of the MiniCluster.
pub async fn supervise<T>(
    meta: &MiniClusterMeta,
    context: &Context,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let begin = Instant::now();
    let result = guard::guarded(guard::RECONCILE_TIMEOUT, work).await;
    if let Err(error @ (Error::TimedOut(_) | Error::Internal)) = &result {
        let report = Box::pin(report::report_interrupted(context, meta, error));
        let reported = guard::guarded(INTERRUPTION_REPORT_TIMEOUT, report).await;
        if let Err(error) = reported {
            tracing::warn!(error = error.chain(), "could not report the interruption");
        }
    }
    context.cache.set_reconciled(meta);
    context.metrics.observe(begin.elapsed(), result.as_ref().err().map(Error::category));
    if result.is_ok() {
        context.failures.forget(meta.namespace().as_deref(), &meta.name_any());
    }
    result
}

/// Schedules another reconcile after a wait that doubles with each failure in a row. A write conflict is no failure.
#[expect(clippy::needless_pass_by_value, reason = "the signature that `Controller::run` asks for")]
fn retry(meta: Arc<MiniClusterMeta>, error: &Error, context: Arc<Context>) -> Action {
    if matches!(error, Error::Conflict(_)) {
        return Action::requeue(FIRST_RETRY);
    }
    let (failures, wait) = context.failures.failed(meta.as_ref());
    let (name, namespace) = (meta.name_any(), meta.namespace().unwrap_or_default());
    let (category, error) = (error.category(), error.chain());
    // The first retries follow within seconds: they would repeat the same line.
    if failures == 1 || wait >= FAILURE_LOG_INTERVAL {
        tracing::warn!(name, namespace, category, error, failures, ?wait, "reconcile failed");
    }
    Action::requeue(wait)
}

/// Watches and reconciles until `shutdown` resolves. Calls `synced` whenever all MiniClusters have been listed.
pub async fn run(
    context: Arc<Context>,
    scope: Scope,
    synced: impl Fn() + Send + 'static,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let (client, only) = (context.client.clone(), scope.namespace.as_deref());
    let (store, clusters) = mini_clusters(api(&client, only), Arc::clone(&context.cache), synced);
    let ours = &managed("");
    if !context.begin_watches() {
        return;
    }
    let writers = &context.writers;
    let jobs = controlled(api(&client, only), &writers.jobs, ours, MINI_CLUSTER, strip_job);
    let services =
        controlled(api(&client, only), &writers.services, ours, MINI_CLUSTER, strip_service);
    let config_maps =
        controlled(api(&client, only), &writers.config_maps, ours, MINI_CLUSTER, strip_config_map);
    // The operator must notice that a pod of `spec.services` ends, or does not start.
    let of_services = managed(&format!(",{}={}", labels::JOB_INDEX, labels::SERVICES_INDEX));
    let services_pods = controlled(
        api(&client, only),
        &writers.services_pods,
        &of_services,
        MINI_CLUSTER,
        strip_pod,
    );
    // Of a Job's pods the operator watches only the leads: their end decides the run.
    let of_leads = managed(&format!(",{}=0", labels::COMPLETION_INDEX));
    let leads = controlled(api(&client, only), &writers.leads, &of_leads, JOB, strip_pod);
    let demand_changes = context.demands.changes(store.clone());
    context.metrics.add_count(count(store.clone(), Arc::clone(&context.cache)));
    Controller::for_stream(clusters, store)
        .with_config(Config::default().concurrency(scope.concurrency))
        .owns_stream(jobs)
        .owns_stream(services)
        .owns_stream(config_maps)
        .owns_stream(services_pods)
        .watches_stream(leads, |pod| cluster_of(&pod))
        .reconcile_on(demand_changes)
        .graceful_shutdown_on(shutdown)
        .run(reconcile_one, retry, Arc::clone(&context))
        .for_each(|result| {
            match result {
                // A retry was scheduled for a MiniCluster that was deleted meanwhile.
                Err(RunError::ObjectNotFound(gone)) => {
                    context.failures.forget(gone.namespace.as_deref(), &gone.name);
                }
                Err(RunError::QueueError(error)) => tracing::warn!(%error, "a watch failed"),
                Err(RunError::RunnerError(error)) => tracing::error!(%error, "controller failed"),
                // `supervise` has recorded the outcome.
                Err(RunError::ReconcilerFailed(..)) | Ok(_) => {}
            }
            ready(())
        })
        .await;
}
