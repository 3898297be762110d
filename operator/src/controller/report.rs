//! Writes the status, once, last, and only when it differs; then the Events.

use super::apply::FIELD_MANAGER;
use super::error::Error;
use super::events::events;
use super::read::reported;
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
        "status": status,
    });
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    // The answer holds the whole object, also one that cannot be read.
    let namespace = cluster.namespace().unwrap_or_default();
    let api = reported(api.clone().into_client(), &namespace);
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
