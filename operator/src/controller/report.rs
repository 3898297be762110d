//! Writes the status at the end of a reconcile if it differs, then the Events.
//!
//! Minor status changes are postponed and written together: a thousand starting pods cause a thousand of them.

pub(super) mod events;

use super::context::{Context, FIELD_MANAGER};
use super::error::{Error, Verb};
use super::observe::cached_client::{Read, read, reported};
use super::observe::mini_cluster_cache::{NamespacedName, namespaced_name};
use super::observe::stores::MiniClusterMeta;
use super::status::{change, interrupted, summary};
use events::events;
use flux_api::crd::{MiniCluster, MiniClusterStatus, Reason, State};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, Recorder};
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use std::time::Duration;

/// Least time between two status writes of which the second only changes numbers and messages.
const STATUS_WRITE_INTERVAL: Duration = Duration::from_secs(5);
/// Least time before a status write that only reports started pods or an ended lead: the next state follows soon.
const PASSING_STATE_INTERVAL: Duration = Duration::from_secs(10);

/// Reasons of a status that waits for nodes, a quota, a queue or a person.
const WAITING_REASONS: [Reason; 3] = [Reason::Waiting, Reason::PodsRefused, Reason::Suspended];

/// Writes `status` if it differs from the present one, sets the new resource version in `mini_cluster`, and publishes
/// Events. Returns how long to wait if the write was postponed.
pub(crate) async fn report(
    context: &Context,
    mini_cluster: &mut MiniCluster,
    status: &MiniClusterStatus,
) -> Result<Option<Duration>, Error> {
    let name = namespaced_name(mini_cluster);
    context.cache.set_summary(&name, summary(mini_cluster, status));
    context.cache.set_end(&name, status.ended_at().map(|time| time.0));
    if mini_cluster.status.as_ref() == Some(status) {
        return Ok(None);
    }
    if let Some(old) = &mini_cluster.status
        && context.watches()
        && let Some(remaining) = postponed(context, &name, old, status)
    {
        return Ok(Some(remaining));
    }
    let name = mini_cluster.name_any();
    let patch = json!({
        // The write fails if the MiniCluster was replaced or its status written since the read.
        "metadata": { "uid": mini_cluster.uid(), "resourceVersion": mini_cluster.resource_version() },
        "status": replacing(mini_cluster.status.as_ref(), status),
    });
    let parameters =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    // The response has the whole object, whose specification this release may be unable to parse.
    let namespace = mini_cluster.namespace().unwrap_or_default();
    let api = reported(context.client.clone(), &namespace);
    let written = api.patch_status(&name, &parameters, &Patch::Merge(patch)).await;
    let written = written.map_err(Error::of(Verb::WriteStatus, "MiniCluster", &name))?;
    mini_cluster.metadata.resource_version.clone_from(&written.metadata.resource_version);
    context.cache.set_status(written.metadata, written.status);
    let old = mini_cluster.status.as_ref().map(|old| old.conditions.as_slice()).unwrap_or_default();
    log_end(mini_cluster, status);
    context.metrics.observe_status_change(&change(mini_cluster, status));
    for event in events(old, &status.conditions) {
        publish(context, &mini_cluster.object_ref(&()), &event).await;
    }
    Ok(None)
}

/// A merge patch that replaces `old` by `new` whole: a leftover condition of another operator would be outdated.
fn replacing(old: Option<&MiniClusterStatus>, new: &MiniClusterStatus) -> Value {
    let mut patch = json!(new);
    for (field, _) in json!(old).as_object().into_iter().flatten() {
        if patch.get(field).is_none() {
            patch[field] = Value::Null;
        }
    }
    patch
}

/// How long to postpone the write of `new`.
fn postponed(
    context: &Context,
    name: &NamespacedName,
    old: &MiniClusterStatus,
    new: &MiniClusterStatus,
) -> Option<Duration> {
    let left = write_interval(old, new).and_then(|it| context.cache.remaining(name, it));
    let limited = || context.status_rate.remaining(name);
    left.or_else(|| still_waits(old, new).then(limited).flatten())
}

/// True where the same run still waits. Such writes are rate limited: many MiniClusters may wait for the same.
fn still_waits(old: &MiniClusterStatus, new: &MiniClusterStatus) -> bool {
    let is_same = (old.state, old.size) == (new.state, new.size)
        && old.observed_generation == new.observed_generation;
    let reason = new.reason.as_deref().and_then(Reason::find);
    is_same && reason.is_some_and(|reason| WAITING_REASONS.contains(&reason))
}

/// The least interval between `old` and `new`; `None` for a change on which people act, as one with an Event.
pub(super) fn write_interval(old: &MiniClusterStatus, new: &MiniClusterStatus) -> Option<Duration> {
    use State::{Ending, Pending, Running, Starting};
    let interval = match (old.state, new.state) {
        (before, now) if before == now => STATUS_WRITE_INTERVAL,
        (Some(Pending), Some(Starting)) | (Some(Pending | Starting | Running), Some(Ending)) => {
            PASSING_STATE_INTERVAL
        }
        _ => return None,
    };
    let is_minor = old.observed_generation == new.observed_generation
        && old.size == new.size
        && events(&old.conditions, &new.conditions).is_empty();
    is_minor.then_some(interval)
}

/// Publishes an Event about a MiniCluster; a failure is only logged. Each Event has its own recorder, because a
/// shared one would merge Events with different texts into the first.
pub(super) async fn publish(context: &Context, mini_cluster: &ObjectReference, event: &Event) {
    let recorder = Recorder::new(context.client.clone(), context.reporter.clone());
    if let Err(error) = recorder.publish(event, mini_cluster).await {
        tracing::warn!(%error, reason = event.reason, "an Event could not be published");
    }
}

fn log_end(mini_cluster: &MiniCluster, status: &MiniClusterStatus) {
    let was_over = mini_cluster.status.as_ref().is_some_and(MiniClusterStatus::is_over);
    let Some(end) = status.end().filter(|_| !was_over) else { return };
    let (type_, reason, message) = (&end.type_, &end.reason, &end.message);
    let exit_code = status.exit_code;
    tracing::info!(type_, reason, message, exit_code, "the MiniCluster has ended");
}

/// Writes `error` into the status, unless it is a conflict, and returns it.
pub(crate) async fn report_error(
    context: &Context,
    mini_cluster: &mut MiniCluster,
    error: Error,
) -> Error {
    if !matches!(error, Error::Conflict(_)) {
        let status = interrupted(mini_cluster, &error, context.now());
        if let Err(error) = report(context, mini_cluster, &status).await {
            tracing::warn!(error = error.chain(), "could not write the status either");
        }
    }
    error
}

/// Writes into the status of a MiniCluster that `error` has interrupted its reconcile.
pub(crate) async fn report_interrupted(
    context: &Context,
    meta: &MiniClusterMeta,
    error: &Error,
) -> Result<(), Error> {
    let (namespace, name) = namespaced_name(meta);
    let Some(Read { mut mini_cluster, .. }) = read(&context.client, &namespace, &name).await?
    else {
        return Ok(());
    };
    let status = interrupted(&mini_cluster, error, context.now());
    report(context, &mut mini_cluster, &status).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fixtures;
    use flux_api::crd::MiniClusterSpec;
    use futures::FutureExt as _;

    fn status(state: State, ready_brokers: i32) -> MiniClusterStatus {
        MiniClusterStatus { state: Some(state), ready_brokers, ..MiniClusterStatus::default() }
    }

    #[tokio::test]
    async fn status_writes_that_can_wait_are_postponed() {
        let (context, _server) = fixtures::context();
        assert!(context.begin_watches());
        let mut mini_cluster = MiniCluster::new("hello", MiniClusterSpec::default());
        mini_cluster.status = Some(status(State::Starting, 1));
        let next = |state| {
            let status = status(state, 2);
            let (context, mut mini_cluster) = (&context, mini_cluster.clone());
            // The simulated server never responds, so a status write stays pending.
            async move { report(context, &mut mini_cluster, &status).now_or_never().map(Result::unwrap) }
        };
        assert_eq!(next(State::Starting).await, None, "nothing was written before");
        context.cache.put(&mini_cluster);
        context.cache.set_status(mini_cluster.metadata.clone(), mini_cluster.status.clone());
        for (state, least, most) in [
            (State::Starting, Duration::ZERO, STATUS_WRITE_INTERVAL),
            (State::Ending, STATUS_WRITE_INTERVAL, PASSING_STATE_INTERVAL),
        ] {
            let remaining = next(state).await.unwrap().unwrap();
            assert!(remaining > least && remaining <= most);
        }
        assert_eq!(next(State::Running).await, None, "a quorum is written at once");
    }
}
