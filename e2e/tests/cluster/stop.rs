//! How a run ends that does not end by itself.

use crate::{DEADLINE, lead_log, minicluster, trial};
use anyhow::{Context as _, Result, ensure};
use e2e::trial::{Trial, condition, is_true};
use flux_contract::{Exit, TerminationMessage};
use flux_operator::crd::MiniCluster;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use kube::runtime::wait::await_condition;

/// What the agent in container `name` of `pod` has left, if that has ended.
fn message(pod: Option<&Pod>, name: &str) -> Option<TerminationMessage> {
    let containers = pod?.status.as_ref()?.container_statuses.as_ref()?;
    let own = containers.iter().find(|container| container.name == name)?;
    let ended = own.state.as_ref()?.terminated.as_ref()?;
    TerminationMessage::from_json(ended.message.as_deref()?)
}

/// Name of the lead's pod.
async fn lead(trial: &Trial, name: &str) -> Result<String> {
    let pods = trial.pods(name).await?;
    let lead = pods.iter().find(|pod| pod.name_any().starts_with(&format!("{name}-0-")));
    Ok(lead.with_context(|| format!("{name} has no lead pod"))?.name_any())
}

#[test]
#[ignore = "needs a cluster"]
fn a_deadline_fails_the_minicluster_and_keeps_pods_and_logs() {
    trial("deadline", &[], async |trial| {
        let spec = r#"{size: 2, deadlineSeconds: 30, containers: [{image: "ubuntu:24.04",
            command: 'sh -c "echo begun; sleep 1000"', commands: {post: "echo saved"}}]}"#;
        let name = trial.apply(&minicluster("deadline", spec)).await?;
        let cluster = trial.await_finished(&name, DEADLINE).await?;
        ensure!(is_true(&cluster, "Failed"), "conditions: {:?}", cluster.status);
        let (_, reason, message) = condition(&cluster, "Failed").context("no Failed condition")?;
        ensure!(reason == "DeadlineExceeded", "Failed: {reason}: {message}");
        ensure!(message.contains("30 seconds"), "Failed: {reason}: {message}");
        let code = cluster.status.as_ref().and_then(|status| status.exit_code);
        ensure!(code == Some(Exit::Deadline.code().into()), "exit code {code:?}");
        let log = lead_log(trial, &name).await?;
        for line in ["begun", "saved"] {
            ensure!(log.lines().any(|found| found == line), "no {line:?} in the log:\n{log}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_lead_that_is_deleted_leaves_its_message_although_its_command_ignores_signals() {
    trial("deaf", &[], async |trial| {
        let spec = r#"{size: 2, pod: {overlay: {terminationGracePeriodSeconds: 12}},
            containers: [{image: "ubuntu:24.04",
            command: "trap '' TERM HUP INT; echo deaf; while true; do sleep 1; done"}]}"#;
        let name = trial.apply(&minicluster("deaf", spec)).await?;
        let ready = |cluster: Option<&MiniCluster>| cluster.is_some_and(|c| is_true(c, "Ready"));
        trial.await_minicluster(&name, "ready", DEADLINE, ready).await?;
        let pods = trial.api::<Pod>();
        let pod = lead(trial, &name).await?;
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
