//! One reconcile of one MiniCluster: observe, decide, apply, report.

use super::apply::report::{report, report_error};
use super::apply::{apply, apply_if_changed, delete};
use super::context::Context;
use super::decide::record::{RunRecord, expires, record, time_until_deletion};
use super::decide::{Plan, Request, creates_job, decide, next_reconcile};
use super::error::Error;
use super::kube_ext::broker_is_ready;
use super::observe::cached_client::{CachedClient, Read};
use super::observe::demand::Answer;
use super::observe::stores::MiniClusterMeta;
use super::observe::{Live, observe};
use super::status::{Facts, status};
use crate::cluster::validate::{Violations, validate};
use crate::cluster::{Cluster, Identity};
use crate::crd::{MiniCluster, MiniClusterStatus};
use flux_contract::token;
use flux_protocol::Redacted;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::runtime::controller::Action;
use std::sync::Arc;
use std::time::Duration;

pub(super) async fn reconcile(
    watched: Arc<MiniClusterMeta>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    let (context, client) = (&*context, &CachedClient::new(&context, &watched));
    // Read first: it names what else is read.
    let read = client.cluster(&watched).await?;
    let Some(Read { mut object, unreadable, .. }) = read else { return Ok(Action::await_change()) };
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let now = context.now();
    let mut request = request(context, &object, unreadable, &now);
    let cluster = request.cluster.as_ref().ok();
    let mut live = match observe_named(client, &object, cluster, &now).await {
        Ok(live) => live,
        Err(error) => return Err(report_error(context, &mut object, error).await),
    };
    request.answer = answer(client, request.cluster.as_ref().ok(), &live);
    if let Some(cluster) = creates_job(&request, &live) {
        request.image_volumes = context.image_volumes.support(&context.client, cluster).await;
    }
    let mut plan = decide(&request, &live);
    let mut applied = apply_plan(client, &mut plan, &mut live).await;
    if applied.is_ok() && plan.writes.only_services {
        // The agents' configuration holds the address of the lead's Service, which the API server
        // chooses when it creates it: the rest is decided with its answer.
        plan = decide(&request, &live);
        applied = apply_plan(client, &mut plan, &mut live).await;
    }
    if let Err(conflict @ Error::Conflict(_)) = applied {
        // What was read is out of date already: no reason to tell of it.
        return Err(conflict);
    }

    let facts = Facts { live: &live, plan: &plan, error: applied.as_ref().err() };
    let name = object.name_any();
    let status = status(object.status.as_ref(), &name, &facts, now.clone());
    let recorded = match record_run(client, &object, &facts, &status, &now).await {
        // Where somebody else has the name of the record, nothing is run again either.
        Err(error) if !matches!(error, Error::NameConflict(_)) => {
            return Err(report_error(context, &mut object, error).await);
        }
        recorded => recorded,
    };
    let reported = report(context, &mut object, &status).await;
    if let (Err(_), Err(error)) = (&applied, &reported) {
        // The first error is the cause, and is the one that is returned.
        tracing::warn!(error = error.chain(), "the status could not be written either");
    }
    applied?;
    let deferred = reported?;
    recorded?;
    let next = next_reconcile(&live, &plan, status.state, &name).into_iter().chain(deferred).min();
    // What goes with its namespace would hold that up.
    let ends = live.pods.namespace_ends.then_some(Duration::ZERO);
    let deletion = ends.or_else(|| time_until_deletion(&object.spec, &status, &now));
    next_action(client, &object, next, deletion).await
}

/// When to reconcile again; where the time of the MiniCluster is over it is deleted.
async fn next_action(
    client: &CachedClient<'_>,
    object: &MiniCluster,
    next: Option<Duration>,
    deletion: Option<Duration>,
) -> Result<Action, Error> {
    if deletion.is_some_and(|rest| rest.is_zero()) {
        let objects = client.objects::<MiniCluster>();
        delete(&objects, &object.name_any(), object.uid(), object.resource_version()).await?;
        return Ok(Action::await_change());
    }
    let soonest = next.into_iter().chain(deletion).min();
    Ok(soonest.map_or_else(Action::await_change, Action::requeue))
}

/// What there is. Under a name that cannot be one nothing was ever made.
async fn observe_named(
    client: &CachedClient<'_>,
    object: &MiniCluster,
    cluster: Option<&Cluster>,
    now: &Time,
) -> Result<Live, Error> {
    match Identity::of(object) {
        Ok(identity) => Box::pin(observe(client, &identity, cluster, now)).await,
        Err(_) => Ok(Live::default()),
    }
}

/// What is asked for. Where the specification could not be read, its faults are `unreadable`.
fn request<'context>(
    context: &'context Context,
    object: &MiniCluster,
    unreadable: Option<Violations>,
    now: &Time,
) -> Request<'context> {
    let cluster = unreadable.map_or_else(|| validate(object, &context.defaults), Err);
    let has_api = cluster.as_ref().is_ok_and(|cluster| cluster.flux.rest_port.is_some());
    if let Err(violations) = &cluster {
        tracing::debug!(%violations, "the specification is invalid");
    }
    Request {
        generation: object.metadata.generation.unwrap_or_default(),
        now: now.clone(),
        expires: expires(&object.spec),
        cluster,
        answer: Answer::None,
        images: &context.images,
        image_volumes: Err("nobody has asked the nodes".to_owned()),
        rest_token: (has_api.then(|| token::random(getrandom::fill).ok()).flatten())
            .map(Redacted::new),
        draw: getrandom::fill,
    }
}

/// What the lead has answered that is asked what its queue needs. While it is not ready, or where the size does not
/// go by that, nobody is asked.
fn answer(client: &CachedClient<'_>, cluster: Option<&Cluster>, live: &Live) -> Answer {
    let cluster = cluster.filter(|cluster| cluster.autoscale.is_some());
    let is_asked = |lead: &&Pod| {
        let name = cluster.map(|cluster| cluster.name.as_str());
        lead.metadata.deletion_timestamp.is_none()
            && name.is_some_and(|name| broker_is_ready(lead, name))
    };
    let lead = live.pods.lead.as_ref().filter(is_asked);
    client.context.demands.answer(&client.cluster, lead)
}

async fn apply_plan(
    client: &CachedClient<'_>,
    plan: &mut Plan,
    live: &mut Live,
) -> Result<(), Error> {
    if let Some(obstacle) = plan.obstacle.take() {
        return Err(obstacle);
    }
    apply(client, &plan.writes, live).await
}

/// Records that a run has begun, which lets its pods start; and how it has ended, before the status says so: somebody
/// may delete the Job as soon as it does.
async fn record_run(
    client: &CachedClient<'_>,
    object: &MiniCluster,
    facts: &Facts<'_>,
    status: &MiniClusterStatus,
    now: &Time,
) -> Result<(), Error> {
    let Ok(identity) = Identity::of(object) else { return Ok(()) };
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
