//! One reconcile of one MiniCluster: observe, decide, apply, report.

use super::apply::{apply, apply_if_changed, delete};
use super::context::Context;
use super::decide::deletion::{expires, time_until_deletion};
use super::decide::record::record;
use super::decide::{DecisionInput, creates_job, decide, next_reconcile};
use super::error::Error;
use super::job_ext::is_finished;
use super::observe::cached_client::{CachedClient, Read};
use super::observe::demand::Answer;
use super::observe::stores::MiniClusterMeta;
use super::observe::{Applied, Observed, observe};
use super::pod_ext::broker_is_ready;
use super::report::{report, report_error};
use super::run_record::RunRecord;
use super::status::{Facts, status};
use super::surplus::delete_surplus;
use flux_api::cluster::Identity;
use flux_api::cluster::validate::{Violations, validate};
use flux_api::crd::{MiniCluster, MiniClusterStatus};
use flux_api::objects::RestTokens;
use flux_api::objects::install::depends_on_nodes;
use flux_contract::token;
use flux_protocol::Redacted;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use std::sync::Arc;
use std::time::Duration;

pub(super) async fn reconcile(
    meta: Arc<MiniClusterMeta>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    let (context, client) = (&*context, &CachedClient::new(&context, &meta));
    // The MiniCluster is read first, because its specification has the names of the other objects.
    let Some(Read { mut mini_cluster, unreadable }) = client.mini_cluster(&meta).await? else {
        return Ok(Action::await_change());
    };
    if mini_cluster.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let now = context.now();
    let mut input = decision_input(context, &mini_cluster, unreadable, &now);
    let observed = match observe_if_valid_name(client, &mini_cluster, &input).await {
        Ok(observed) => observed,
        Err(error) => return Err(report_error(context, &mut mini_cluster, error).await),
    };
    let lead = polled_lead(&input, &observed);
    input.answer = context.demands.answer(&client.name, lead);
    if let Some(cluster) = creates_job(&input, &observed).filter(|it| depends_on_nodes(it)) {
        input.image_volumes = context.image_volumes.support(&context.client, cluster).await;
    }
    let mut plan = decide(&input, &observed);
    context.demands.poll(&client.name, lead);
    let mut changes = Applied::default();
    let applied = match plan.obstacle.take() {
        Some(obstacle) => Err(obstacle),
        None => apply(client, &plan.writes, &mut changes).await,
    };
    if let Err(conflict @ Error::Conflict(_)) = applied {
        // The next reconcile reads the objects again: the status of outdated ones is not worth a write.
        return Err(conflict);
    }

    let live = observed.after(changes, &now);
    let facts = Facts { live: &live, plan: &plan, error: applied.as_ref().err() };
    let name = mini_cluster.name_any();
    let was_over = is_over(&mini_cluster);
    let status = status(mini_cluster.status.as_ref(), &name, &facts, now.clone());
    let recorded = match record_run(client, &mini_cluster, &facts, &status, &now).await {
        // While another object has the name of the ConfigMap, no Job can be created either.
        Err(error) if !matches!(error, Error::NameConflict(_)) => {
            return Err(report_error(context, &mut mini_cluster, error).await);
        }
        recorded => recorded,
    };
    let reported = report(context, &mut mini_cluster, &status).await;
    if let (Err(_), Err(error)) = (&applied, &reported) {
        // The first error is the cause, so it is the one to return.
        tracing::warn!(error = error.chain(), "could not write the status either");
    }
    applied?;
    let deferred = reported?;
    recorded?;
    if was_over && deferred.is_none() {
        forget_if_settled(context, &mini_cluster, &live);
    }
    if status.is_over() && deferred.is_none() {
        delete_surplus(client).await?;
    }
    let next = next_reconcile(&live, &plan).into_iter().chain(deferred).min();
    // A MiniCluster in a namespace that is being deleted would keep the namespace: delete it now.
    let ends = live.pods.namespace_ends.then_some(Duration::ZERO);
    let deletion =
        ends.or_else(|| time_until_deletion(&mini_cluster.spec, plan.runs_again, &status, &now));
    next_action(client, &mini_cluster, next, deletion).await
}

fn is_over(mini_cluster: &MiniCluster) -> bool {
    mini_cluster.status.as_ref().is_some_and(MiniClusterStatus::is_over)
}

/// Frees the memory of a MiniCluster whose run is recorded and whose Job has finished: seldom does it change again.
fn forget_if_settled(context: &Context, mini_cluster: &MiniCluster, live: &Observed) {
    let Ok(identity) = Identity::of(mini_cluster) else { return };
    let job = live.job.as_ref();
    if live.lifecycle.is_recorded() && job.is_none_or(is_finished) {
        context.forget_run(&identity, job.and_then(|job| job.metadata.uid.as_deref()));
    }
}

/// When to reconcile again; deletes the MiniCluster when its time to live is over.
async fn next_action(
    client: &CachedClient<'_>,
    mini_cluster: &MiniCluster,
    next: Option<Duration>,
    deletion: Option<Duration>,
) -> Result<Action, Error> {
    if deletion.is_some_and(|remaining| remaining.is_zero()) {
        let objects = client.objects::<MiniCluster>();
        let (uid, version) = (mini_cluster.uid(), mini_cluster.resource_version());
        delete(&objects, &mini_cluster.name_any(), uid, version).await?;
        return Ok(Action::await_change());
    }
    let soonest = next.into_iter().chain(deletion).min();
    Ok(soonest.map_or_else(Action::await_change, Action::requeue))
}

/// The live objects of a MiniCluster. One with an invalid name never had objects, so nothing is read.
async fn observe_if_valid_name(
    client: &CachedClient<'_>,
    mini_cluster: &MiniCluster,
    input: &DecisionInput<'_>,
) -> Result<Observed, Error> {
    let DecisionInput { cluster, generation, now, .. } = input;
    match Identity::of(mini_cluster) {
        Ok(identity) => {
            let (cluster, status) = (cluster.as_ref().ok(), mini_cluster.status.as_ref());
            Box::pin(observe(client, &identity, cluster, (*generation, status), now)).await
        }
        Err(_) => Ok(Observed::default()),
    }
}

/// The input of the decision. `unreadable` has the faults of a specification that could not be parsed.
fn decision_input<'context>(
    context: &'context Context,
    mini_cluster: &MiniCluster,
    unreadable: Option<Violations>,
    now: &Time,
) -> DecisionInput<'context> {
    let cluster = unreadable.map_or_else(|| validate(mini_cluster, &context.defaults), Err);
    let has_api = cluster.as_ref().is_ok_and(|cluster| cluster.flux.rest.is_some());
    if let Err(violations) = &cluster {
        tracing::debug!(%violations, "the specification is invalid");
    }
    DecisionInput {
        generation: mini_cluster.metadata.generation.unwrap_or_default(),
        now: now.clone(),
        expires: expires(&mini_cluster.spec),
        cluster,
        answer: Answer::None,
        images: &context.images,
        image_volumes: Err("the operator has not checked the nodes".to_owned()),
        rest_tokens: has_api.then(rest_tokens).flatten(),
        draw: getrandom::fill,
    }
}

fn rest_tokens() -> Option<RestTokens> {
    let token = || token::random(getrandom::fill).ok().map(Redacted::new);
    Some(RestTokens { full: token()?, read_only: token()? })
}

/// The lead that is polled for its demand: a ready one of a MiniCluster with `autoscale`.
fn polled_lead<'live>(input: &DecisionInput<'_>, live: &'live Observed) -> Option<&'live Pod> {
    let cluster = input.cluster.as_ref().ok().filter(|cluster| cluster.autoscale.is_some())?;
    let lead = live.pods.lead.as_ref().filter(|lead| broker_is_ready(lead, cluster.name.as_str()));
    lead.filter(|lead| lead.metadata.deletion_timestamp.is_none())
}

/// Records that a run has begun, which lets its pods start. Records also how it ended, before the status has the end,
/// because people may then delete the Job.
async fn record_run(
    client: &CachedClient<'_>,
    mini_cluster: &MiniCluster,
    facts: &Facts<'_>,
    status: &MiniClusterStatus,
    now: &Time,
) -> Result<(), Error> {
    let Ok(identity) = Identity::of(mini_cluster) else { return Ok(()) };
    let Facts { live, plan, .. } = facts;
    if live.lifecycle.is_recorded() {
        return Ok(());
    }
    let (job, config_map) = (live.job.as_ref(), live.config_map.as_ref());
    let recorded = config_map.and_then(RunRecord::on);
    let run = RunRecord::of(job, recorded.as_ref(), status, plan.generation, now);
    let Some(run) = run else { return Ok(()) };
    let change = record(&identity, job, config_map, &run);
    apply_if_changed(&client.objects(), &change).await.map(drop)
}
