//! Writes the status, once, last, and only when it differs; then the Events.
//!
//! What nobody waits for is written together: a thousand pods that start change how many are ready as often.

mod events;

use super::context::{Context, FIELD_MANAGER};
use super::error::{Error, Verb};
use super::observe::cached_client::{Read, read, reported};
use super::observe::mini_cluster_cache::{Name, name_of};
use super::observe::stores::MiniClusterMeta;
use super::status::{change, interrupted, summary};
use events::events;
use flux_api::crd::{MiniCluster, MiniClusterStatus, State};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, Recorder};
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use std::time::Duration;

/// Least time between two writes of a status of which the second has other numbers and words only.
const PAUSE: Duration = Duration::from_secs(5);
/// The same where the second says that pods have started or that the lead has ended: most runs go on soon.
const LONG_PAUSE: Duration = Duration::from_secs(10);

/// Reasons of a status that waits for nodes, a quota, a queue, or somebody.
const WAITING_REASONS: [&str; 3] = ["Waiting", "PodsRefused", "Suspended"];

/// Writes `status` if it differs from the one `cluster` has, and publishes what changed; `cluster` has then the
/// resource version of the answer. If it can wait and another was written a moment ago, the answer is how long.
pub(crate) async fn report(
    context: &Context,
    cluster: &mut MiniCluster,
    status: &MiniClusterStatus,
) -> Result<Option<Duration>, Error> {
    context.recent.set_summary(&name_of(cluster), summary(cluster, status));
    if cluster.status.as_ref() == Some(status) {
        return Ok(None);
    }
    if let Some(old) = &cluster.status
        && context.watches()
        && let Some(rest) = postponed(context, &name_of(cluster), old, status)
    {
        return Ok(Some(rest));
    }
    let name = cluster.name_any();
    let patch = json!({
        // Neither to one of the same name that was created since, nor over what another has written.
        "metadata": { "uid": cluster.uid(), "resourceVersion": cluster.resource_version() },
        "status": replacing(cluster.status.as_ref(), status),
    });
    let parameters =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    // The answer holds the whole object, also one that cannot be read.
    let namespace = cluster.namespace().unwrap_or_default();
    let api = reported(context.client.clone(), &namespace);
    let answer = api.patch_status(&name, &parameters, &Patch::Merge(patch)).await;
    let answer = answer.map_err(Error::of(Verb::WriteStatus, "MiniCluster", &name))?;
    cluster.metadata.resource_version.clone_from(&answer.metadata.resource_version);
    context.recent.set_status(answer.metadata, answer.status);
    let old = cluster.status.as_ref().map(|old| old.conditions.as_slice()).unwrap_or_default();
    log_end(cluster, status);
    context.metrics.observe_change(&change(cluster, status));
    for event in events(old, &status.conditions) {
        publish(context, &cluster.object_ref(&()), &event).await;
    }
    Ok(None)
}

/// What puts `new` in the place of `old`, as a merge patch: the whole status is the operator's. Conditions that
/// another operator has left would say what was true once.
fn replacing(old: Option<&MiniClusterStatus>, new: &MiniClusterStatus) -> Value {
    let mut patch = json!(new);
    for (field, _) in json!(old).as_object().into_iter().flatten() {
        if patch.get(field).is_none() {
            patch[field] = Value::Null;
        }
    }
    patch
}

/// How long it is until `new` may take the place of `old`.
fn postponed(
    context: &Context,
    cluster: &Name,
    old: &MiniClusterStatus,
    new: &MiniClusterStatus,
) -> Option<Duration> {
    let rest = pause(old, new).and_then(|pause| context.recent.pause(cluster, pause));
    let limited = || context.status_rate.rest(cluster);
    rest.or_else(|| still_waits(old, new).then(limited).flatten())
}

/// True where the same run waits as before, for something else perhaps. What all of them wait for may change for all
/// at once; who starts or ends is not limited.
fn still_waits(old: &MiniClusterStatus, new: &MiniClusterStatus) -> bool {
    let is_same = (old.state, old.size) == (new.state, new.size)
        && old.observed_generation == new.observed_generation;
    is_same && new.reason.as_deref().is_some_and(|reason| WAITING_REASONS.contains(&reason))
}

/// How long `new` can wait after `old`: if it only has other numbers and words, or says that pods have started or
/// that the lead has ended, nobody acts on that. An Event is never late.
fn pause(old: &MiniClusterStatus, new: &MiniClusterStatus) -> Option<Duration> {
    use State::{Ending, Pending, Running, Starting};
    let pause = match (old.state, new.state) {
        (before, now) if before == now => PAUSE,
        (Some(Pending), Some(Starting)) | (Some(Pending | Starting | Running), Some(Ending)) => {
            LONG_PAUSE
        }
        _ => return None,
    };
    let only_that = old.observed_generation == new.observed_generation
        && old.size == new.size
        && events(&old.conditions, &new.conditions).is_empty();
    only_that.then_some(pause)
}

/// Publishes an Event about a MiniCluster. One that cannot be written is no reason to do anything again. Each has a
/// recorder of its own: one for all would take an Event with another text for the same, and drop the text.
async fn publish(context: &Context, cluster: &ObjectReference, event: &Event) {
    let recorder = Recorder::new(context.client.clone(), context.reporter.clone());
    if let Err(error) = recorder.publish(event, cluster).await {
        tracing::warn!(%error, reason = event.reason, "publish an Event");
    }
}

fn log_end(cluster: &MiniCluster, status: &MiniClusterStatus) {
    let was_over = cluster.status.as_ref().is_some_and(MiniClusterStatus::is_over);
    let Some(end) = status.end().filter(|_| !was_over) else { return };
    let (type_, reason, message) = (&end.type_, &end.reason, &end.message);
    let exit_code = status.exit_code;
    tracing::info!(type_, reason, message, exit_code, "the MiniCluster has ended");
}

/// Says in the status why no more is known, or told, unless what was read is out of date. The answer is `error`.
pub(crate) async fn report_error(
    context: &Context,
    cluster: &mut MiniCluster,
    error: Error,
) -> Error {
    if !matches!(error, Error::Conflict(_)) {
        let status = interrupted(cluster, &error, context.now());
        if let Err(error) = report(context, cluster, &status).await {
            tracing::warn!(error = error.chain(), "the status could not be written either");
        }
    }
    error
}

/// Says in the status of a MiniCluster that its reconcile was interrupted by `error`.
pub(crate) async fn report_interrupted(
    context: &Context,
    cluster: &MiniClusterMeta,
    error: &Error,
) -> Result<(), Error> {
    let (namespace, name) = name_of(cluster);
    let Some(Read { mut object, .. }) = read(&context.client, &namespace, &name).await? else {
        return Ok(());
    };
    let status = interrupted(&object, error, context.now());
    report(context, &mut object, &status).await.map(|_| ())
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

    fn with_condition(type_: &str, reason: &str) -> MiniClusterStatus {
        let conditions = vec![fixtures::condition(type_, "True", reason, 0)];
        MiniClusterStatus { conditions, ..status(State::Starting, 1) }
    }

    #[test]
    fn only_numbers_messages_and_passing_states_wait() {
        let starting = status(State::Starting, 1);
        for (new, waits) in [
            (status(State::Starting, 2), Some(PAUSE)),
            (status(State::Ending, 0), Some(LONG_PAUSE)),
            (status(State::Running, 4), None),
            (status(State::Failed, 0), None),
            (status(State::Suspended, 0), None),
            (MiniClusterStatus { size: 8, ..starting.clone() }, None),
            (MiniClusterStatus { observed_generation: Some(2), ..starting.clone() }, None),
            (with_condition("Progressing", "Starting"), Some(PAUSE)),
            (with_condition("Progressing", "Waiting"), None),
            (with_condition("Ready", "QuorumReached"), None),
        ] {
            assert_eq!(pause(&starting, &new), waits, "{new:?}");
        }
        assert_eq!(pause(&status(State::Suspended, 0), &status(State::Pending, 0)), None);
    }

    #[tokio::test]
    async fn status_writes_that_can_wait_are_postponed() {
        let (context, _server) = fixtures::context();
        context.writers.lock().take();
        let mut cluster = MiniCluster::new("hello", MiniClusterSpec::default());
        cluster.status = Some(status(State::Starting, 1));
        let next = |state| {
            let status = status(state, 2);
            let (context, mut cluster) = (&context, cluster.clone());
            // What asks the server has no answer yet.
            async move { report(context, &mut cluster, &status).now_or_never().map(Result::unwrap) }
        };
        assert_eq!(next(State::Starting).await, None, "nothing was written before");
        context.recent.set_cluster(&cluster);
        context.recent.set_status(cluster.metadata.clone(), cluster.status.clone());
        for (state, least, most) in
            [(State::Starting, Duration::ZERO, PAUSE), (State::Ending, PAUSE, LONG_PAUSE)]
        {
            let rest = next(state).await.unwrap().unwrap();
            assert!(rest > least && rest <= most);
        }
        assert_eq!(next(State::Running).await, None, "a quorum is written at once");
    }
}
