//! Writes the status, once, last, and only when it differs; then the Events.

use super::context::{Context, FIELD_MANAGER};
use super::error::Error;
use super::events::events;
use super::known::Marker;
use super::read::{Read, read, reported};
use super::status::interrupted;
use crate::crd::{MiniCluster, MiniClusterStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, Recorder};
use kube::{Resource as _, ResourceExt as _};
use serde_json::json;

/// Writes `status` if it differs from the one `cluster` has, and publishes what changed.
pub(super) async fn report(
    context: &Context,
    cluster: &MiniCluster,
    status: &MiniClusterStatus,
) -> Result<(), Error> {
    if cluster.status.as_ref() == Some(status) {
        return Ok(());
    }
    let name = cluster.name_any();
    let patch = json!({
        "apiVersion": MiniCluster::api_version(&()),
        "kind": MiniCluster::kind(&()),
        // Not to one of the same name that was created since.
        "metadata": { "uid": cluster.uid() },
        "status": status,
    });
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    // The answer holds the whole object, also one that cannot be read.
    let namespace = cluster.namespace().unwrap_or_default();
    let api = reported(context.client.clone(), &namespace);
    let answer = api.patch_status(&name, &parameters, &Patch::Apply(patch)).await;
    let answer = answer.map_err(|source| Error::WriteStatus { name, source: Box::new(source) })?;
    context.known.reported(answer.metadata, answer.status);
    let old = cluster.status.as_ref().map(|old| old.conditions.as_slice()).unwrap_or_default();
    log_end(cluster, status);
    for event in events(old, &status.conditions) {
        publish(&context.recorder(), cluster, &event).await;
    }
    Ok(())
}

/// Publishes an Event about `cluster`. One that cannot be written is no reason to do anything again.
pub(super) async fn publish(recorder: &Recorder, cluster: &MiniCluster, event: &Event) {
    if let Err(error) = recorder.publish(event, &cluster.object_ref(&())).await {
        tracing::warn!(%error, reason = event.reason, "publish an Event");
    }
}

/// Says in the log how a run ended, once.
fn log_end(cluster: &MiniCluster, status: &MiniClusterStatus) {
    let was_over = cluster.status.as_ref().is_some_and(MiniClusterStatus::is_over);
    let Some(end) = status.end().filter(|_| !was_over) else { return };
    let (type_, reason, message) = (&end.type_, &end.reason, &end.message);
    let exit_code = status.exit_code;
    tracing::info!(type_, reason, message, exit_code, "the MiniCluster has ended");
}

/// Says in the status of a MiniCluster that its reconcile was interrupted by `error`.
pub(super) async fn report_interrupted(
    context: &Context,
    marker: &Marker,
    error: &Error,
) -> Result<(), Error> {
    let name = marker.name_any();
    let namespace = marker.namespace().unwrap_or_default();
    let Some(Read { object, .. }) = read(&context.client, &namespace, &name).await? else {
        return Ok(());
    };
    let status = interrupted(&object, error, now());
    report(context, &object, &status).await
}

/// The time in whole seconds, as Kubernetes writes it.
pub(super) fn now() -> Time {
    let now = Timestamp::now();
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}
