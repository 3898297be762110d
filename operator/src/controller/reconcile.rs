//! One reconcile of one MiniCluster: observe, decide, apply, report.

use super::apply::{apply, apply_if_changed, delete};
use super::context::Context;
use super::decide::deletion::{expires, time_until_deletion};
use super::decide::record::record;
use super::decide::{DecisionInput, Plan, creates_job, decide, next_reconcile};
use super::error::Error;
use super::observe::cached_client::{CachedClient, Read};
use super::observe::demand::Answer;
use super::observe::stores::MiniClusterMeta;
use super::observe::{Observed, observe};
use super::pod_ext::broker_is_ready;
use super::report::{report, report_error};
use super::run_record::RunRecord;
use super::status::{Facts, status};
use flux_api::cluster::validate::{Violations, validate};
use flux_api::cluster::{Cluster, Identity};
use flux_api::crd::{MiniCluster, MiniClusterStatus};
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
    let cluster = input.cluster.as_ref().ok();
    let mut live = match observe_if_valid_name(client, &mini_cluster, cluster, &now).await {
        Ok(live) => live,
        Err(error) => return Err(report_error(context, &mut mini_cluster, error).await),
    };
    input.answer = lead_answer(client, input.cluster.as_ref().ok(), &live);
    if let Some(cluster) = creates_job(&input, &live) {
        input.image_volumes = context.image_volumes.support(&context.client, cluster).await;
    }
    let mut plan = decide(&input, &live);
    let mut applied = apply_plan(client, &mut plan, &mut live).await;
    if applied.is_ok() && plan.writes.only_services {
        // The agents' configuration has the address of the lead's Service, which the API server chose just now, so
        // the other objects are decided in a second pass.
        plan = decide(&input, &live);
        applied = apply_plan(client, &mut plan, &mut live).await;
    }
    if let Err(conflict @ Error::Conflict(_)) = applied {
        // The next reconcile reads the objects again: the status of outdated ones is not worth a write.
        return Err(conflict);
    }

    let facts = Facts { live: &live, plan: &plan, error: applied.as_ref().err() };
    let name = mini_cluster.name_any();
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
    let next = next_reconcile(&live, &plan, status.state, &name).into_iter().chain(deferred).min();
    // A MiniCluster in a namespace that is being deleted would keep the namespace: delete it now.
    let ends = live.pods.namespace_ends.then_some(Duration::ZERO);
    let deletion = ends.or_else(|| time_until_deletion(&mini_cluster.spec, &status, &now));
    next_action(client, &mini_cluster, next, deletion).await
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
    cluster: Option<&Cluster>,
    now: &Time,
) -> Result<Observed, Error> {
    match Identity::of(mini_cluster) {
        Ok(identity) => Box::pin(observe(client, &identity, cluster, now)).await,
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
    let has_api = cluster.as_ref().is_ok_and(|cluster| cluster.flux.rest_port.is_some());
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
        rest_token: (has_api.then(|| token::random(getrandom::fill).ok()).flatten())
            .map(Redacted::new),
        draw: getrandom::fill,
    }
}

/// The last answer of the lead about its demand. Only a ready lead of a MiniCluster with `autoscale` is asked.
fn lead_answer(client: &CachedClient<'_>, cluster: Option<&Cluster>, live: &Observed) -> Answer {
    let cluster = cluster.filter(|cluster| cluster.autoscale.is_some());
    let is_asked = |lead: &&Pod| {
        let name = cluster.map(|cluster| cluster.name.as_str());
        lead.metadata.deletion_timestamp.is_none()
            && name.is_some_and(|name| broker_is_ready(lead, name))
    };
    let lead = live.pods.lead.as_ref().filter(is_asked);
    client.context.demands.answer(&client.name, lead)
}

async fn apply_plan(
    client: &CachedClient<'_>,
    plan: &mut Plan,
    live: &mut Observed,
) -> Result<(), Error> {
    if let Some(obstacle) = plan.obstacle.take() {
        return Err(obstacle);
    }
    apply(client, &plan.writes, live).await
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
    if plan.mode.ended().is_some_and(|run| run.end.is_some()) {
        return Ok(());
    }
    let (job, config_map) = (live.job.as_ref(), live.config_map.as_ref());
    let recorded = config_map.and_then(RunRecord::on);
    let run = RunRecord::of(job, recorded.as_ref(), status, plan.generation, now);
    let Some(run) = run else { return Ok(()) };
    let change = record(&identity, job, config_map, &run);
    apply_if_changed(&client.objects(), &change, &mut None).await
}
