//! The controller: what it watches, and what happens then. `reconcile` is a whole reconcile, stage by stage:
//! `observe` reads, `decide`, `build` and `status` are functions of values, `apply` writes.

mod apply;
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
use kube::runtime::controller::{Action, Config, Error as Fault};
use observe::stores::{
    JOB, MINI_CLUSTER, MiniClusterMeta, cluster_of, controlled, managed, mini_clusters, population,
    strip_config_map, strip_job, strip_pod, strip_service,
};
use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Least time between two lines of the log about failures of one MiniCluster, after the first.
const LEAST_BETWEEN_LINES: Duration = Duration::from_mins(1);
/// Longest time to say in a status that a reconcile has failed when it could not say so itself.
const REPORT_LIMIT: Duration = Duration::from_secs(10);

/// Reconciles one MiniCluster and notes how it went.
pub async fn reconcile_one(
    marker: Arc<MiniClusterMeta>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    let work = reconcile::reconcile(Arc::clone(&marker), Arc::clone(&context));
    supervise(&marker, &context, Box::pin(work)).await
}

/// Does `work`, a reconcile of the MiniCluster `marker`, so that whatever it does the others go on: it
/// has a deadline, and a panic is an error of this MiniCluster. Its status reports either.
pub async fn supervise<T>(
    marker: &MiniClusterMeta,
    context: &Context,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let begin = Instant::now();
    let result = guard::guarded(guard::LIMIT, work).await;
    if let Err(error @ (Error::TimedOut(_) | Error::Internal)) = &result {
        let report = Box::pin(report::report_interrupted(context, marker, error));
        let reported = guard::guarded(REPORT_LIMIT, report).await;
        if let Err(error) = reported {
            tracing::warn!(error = error.chain(), "report why the reconcile was interrupted");
        }
    }
    context.recent.set_reconciled(marker);
    context.metrics.observe(begin.elapsed(), result.as_ref().err().map(Error::category));
    if result.is_ok() {
        context.failures.forget(marker.namespace().as_deref(), &marker.name_any());
    }
    result
}

/// Tries again after a wait that doubles with each failure in a row. That somebody else has written is no failure.
#[expect(clippy::needless_pass_by_value, reason = "the signature that `Controller::run` asks for")]
fn retry(marker: Arc<MiniClusterMeta>, error: &Error, context: Arc<Context>) -> Action {
    if matches!(error, Error::Conflict(_)) {
        return Action::requeue(FIRST_RETRY);
    }
    let (failures, wait) = context.failures.failed(marker.as_ref());
    let (name, namespace) = (marker.name_any(), marker.namespace().unwrap_or_default());
    let (category, error) = (error.category(), error.chain());
    // The attempts in between would say the same several times a minute.
    if failures == 1 || wait >= LEAST_BETWEEN_LINES {
        tracing::warn!(name, namespace, category, error, failures, ?wait, "try again later");
    }
    Action::requeue(wait)
}

/// Watches and reconciles until `shutdown` resolves. `synced` is called whenever all MiniClusters have been listed.
pub async fn run(
    context: Arc<Context>,
    scope: Scope,
    synced: impl Fn() + Send + 'static,
    shutdown: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let (client, only) = (context.client.clone(), scope.namespace.as_deref());
    let (store, clusters) = mini_clusters(api(&client, only), Arc::clone(&context.recent), synced);
    let ours = &managed("");
    // A controller is run once.
    let Some(writers) = context.writers.lock().take() else { return };
    let jobs = controlled(api(&client, only), writers.jobs, ours, MINI_CLUSTER, strip_job);
    let services =
        controlled(api(&client, only), writers.services, ours, MINI_CLUSTER, strip_service);
    let config_maps =
        controlled(api(&client, only), writers.config_maps, ours, MINI_CLUSTER, strip_config_map);
    // Their end must be noticed, and why they do not start.
    let of_services = managed(&format!(",{}={}", labels::JOB_INDEX, labels::SERVICES_INDEX));
    let services_pods = controlled(
        api(&client, only),
        writers.services_pods,
        &of_services,
        MINI_CLUSTER,
        strip_pod,
    );
    // Of a Job's pods only the leads are stored, whose end must be noticed at once.
    let of_leads = managed(&format!(",{}=0", labels::COMPLETION_INDEX));
    let leads = controlled(api(&client, only), writers.leads, &of_leads, JOB, strip_pod);
    let demand_changes = context.demands.changes(store.clone());
    context.metrics.set_population(population(store.clone(), Arc::clone(&context.recent)));
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
                // It was to be tried again, and is gone.
                Err(Fault::ObjectNotFound(gone)) => {
                    context.failures.forget(gone.namespace.as_deref(), &gone.name);
                }
                Err(Fault::QueueError(error)) => tracing::warn!(%error, "watch"),
                Err(Fault::RunnerError(error)) => tracing::error!(%error, "run the controller"),
                // Its outcome is recorded where it happens.
                Err(Fault::ReconcilerFailed(..)) | Ok(_) => {}
            }
            ready(())
        })
        .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use error::Verb;
    use kube::core::{ObjectMeta, PartialObjectMetaExt as _, Status};

    #[tokio::test]
    async fn a_conflict_is_retried_soon_and_counts_no_failure() {
        let (context, _server) = fixtures::context();
        let (marker, context) =
            (Arc::new(ObjectMeta::default().into_response_partial()), Arc::new(context));
        let retry = |error: &Error| retry(Arc::clone(&marker), error, Arc::clone(&context));
        let answer = Status::failure("another version", "Conflict").with_code(409);
        let conflict = Error::of(Verb::Apply, "Job", "hello")(kube::Error::Api(Box::new(answer)));
        for _ in 0..9 {
            assert_eq!(retry(&conflict), Action::requeue(FIRST_RETRY));
        }
        assert_eq!(retry(&Error::Internal), Action::requeue(FIRST_RETRY));
        assert_eq!(retry(&conflict), Action::requeue(FIRST_RETRY));
        assert_eq!(retry(&Error::Internal), Action::requeue(2 * FIRST_RETRY));
    }
}
