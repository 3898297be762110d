//! Writes the status, once, last, and only when it differs; then the Events.

use super::apply::FIELD_MANAGER;
use super::error::Error;
use super::events::events;
use super::observe::Trouble;
use super::reconcile::now;
use super::status::interrupted;
use super::{Context, Marker};
use crate::crd::{MiniCluster, MiniClusterStatus};
use kube::api::{Patch, PatchParams};
use kube::runtime::events::Recorder;
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::json;

/// Writes `status` if it differs from the one `cluster` has, and tells what changed.
pub(super) async fn report(
    api: &Api<MiniCluster>,
    recorder: &Recorder,
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
    api.patch_status(&name, &parameters, &Patch::Apply(patch))
        .await
        .map_err(|source| Error::WriteStatus { name, source: Box::new(source) })?;
    let old = cluster.status.as_ref().map(|old| old.conditions.as_slice()).unwrap_or_default();
    let reference = cluster.object_ref(&());
    for event in events(old, &status.conditions) {
        // An Event that cannot be written is no reason to do anything again.
        if let Err(error) = recorder.publish(&event, &reference).await {
            tracing::warn!(%error, reason = event.reason, "publish an Event");
        }
    }
    Ok(())
}

/// Says in the status of a MiniCluster that a look at it was interrupted by `error`.
pub(super) async fn report_interrupted(
    context: &Context,
    marker: &Marker,
    error: &Error,
) -> Result<(), Error> {
    let name = marker.name_any();
    let namespace = marker.namespace().unwrap_or_default();
    let api: Api<MiniCluster> = Api::namespaced(context.client.clone(), &namespace);
    let found = api.get_opt(&name).await.map_err(|source| Error::Read {
        kind: MiniCluster::kind(&()).into_owned(),
        name,
        source: Box::new(source),
    })?;
    let Some(cluster) = found else { return Ok(()) };
    let status = interrupted(&cluster, &Trouble::from(error), now());
    report(&api, &context.recorder, &cluster, &status).await
}
