//! How a run ends that does not end by itself.

use crate::{DEADLINE, apply, ready_lead, trial};
use anyhow::{Context as _, ensure};
use flux_contract::TerminationMessage;
use k8s_openapi::api::core::v1::Pod;
use kube::{api::DeleteParams, runtime::wait::await_condition};

/// What the agent in container `name` of `pod` has left, if that has ended.
fn message(pod: Option<&Pod>, name: &str) -> Option<TerminationMessage> {
    let containers = pod?.status.as_ref()?.container_statuses.as_ref()?;
    let own = containers.iter().find(|container| container.name == name)?;
    let ended = own.state.as_ref()?.terminated.as_ref()?;
    TerminationMessage::from_json(ended.message.as_deref()?)
}

#[test]
#[ignore = "needs a cluster"]
fn a_lead_that_is_deleted_leaves_its_message_although_its_command_ignores_signals() {
    trial("deaf", &[], async |trial| {
        let spec = r#"{size: 2, pod: {overlay: {terminationGracePeriodSeconds: 12}},
            containers: [{image: "ubuntu:24.04",
            command: "trap '' TERM HUP INT; echo deaf; while true; do sleep 1; done"}]}"#;
        let name = apply(trial, "deaf", spec).await?;
        let pod = ready_lead(trial, &name).await?;
        let pods = trial.api::<Pod>();
        let left = |pod: Option<&Pod>| message(pod, &name).is_some();
        let ended = await_condition(pods.clone(), &pod, left);
        let deletion = DeleteParams::default();
        let delete = pods.delete(&pod, &deletion);
        let both = Box::pin(async { tokio::join!(ended, delete) });
        let (ended, deleted) =
            tokio::time::timeout(DEADLINE, both).await.context("waiting for the message")?;
        deleted.context("deleting the lead's pod")?;
        let message = message(ended?.as_ref(), &name).context("no message")?;
        let error = message.last_error.unwrap_or_default();
        ensure!(error.contains("SIGTERM"), "exit code {}: {error}", message.exit_code);
        Ok(())
    });
}
