//! The lead's pod is deleted when it would hurt most: before there is a quorum, and after the command's end.

use super::{agent_status, each_once, go, pods_made, run, said};
use crate::replace::{Loss, await_up, lose};
use crate::{DEADLINE, complete, failure, lead_log, ready_lead, trial, until};
use anyhow::{Context as _, Result, ensure};
use e2e::trial::{Trial, logs::container_log};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::DeleteParams};
use serde_json::json;

/// Workers that wait in a hook: without them there is no quorum.
const HELD_UP: &str =
    "commands: {workerPre: 'echo held up; until test -e /tmp/go; do sleep 0.2; done'}";

/// Lets this worker start its broker.
async fn let_go(trial: &Trial, name: &str, index: u32) -> Result<()> {
    said(trial, name, index, "held up").await?;
    go(trial, name, index).await
}

#[test]
#[ignore = "needs a cluster"]
fn a_lead_that_is_lost_before_the_quorum_fails_a_command_that_never_ran_and_comes_back_for_people()
{
    trial("no-quorum", &[], async |trial| {
        let container = format!("command: 'echo once', {HELD_UP}");
        run(trial, "command", "size: 2", &container).await?;
        run(trial, "people", "size: 3, interactive: true", HELD_UP).await?;
        join(trial, "people", 1).await?;
        let mut leads = Vec::new();
        for name in ["command", "people"] {
            leads.push(said(trial, name, 0, "starting the broker").await?.name_any());
            lose(trial, name, 0, Loss::Deletion).await?;
        }
        let workers = workers(trial, "people").await?;
        said(trial, "people", 0, "starting the broker").await?;
        let_go(trial, "people", 2).await?;
        ensure!(!leads.contains(&ready_lead(trial, "people").await?), "the lead is the same");
        await_up(trial, "people", "3", DEADLINE).await?;
        ensure!(workers == self::workers(trial, "people").await?, "a worker was replaced");

        let cluster = trial.await_finished("command", DEADLINE).await?;
        let (code, reason, message) = failure(&cluster)?;
        ensure!((code, reason) == (Some(77), "LeadLost"), "{code:?} {reason}: {message}");
        for pod in trial.pods("command").await? {
            let log = container_log(trial, &pod, "command").await.unwrap_or_default();
            ensure!(!log.lines().any(|line| line == "once"), "{} ran it: {log}", pod.name_any());
        }
        Ok(())
    });
}

/// Lets this worker join, and waits until all that it waits for is the quorum.
async fn join(trial: &Trial, name: &str, index: u32) -> Result<()> {
    let_go(trial, name, index).await?;
    let pod = trial.pod(name, index).await?.context("no worker")?.name_any();
    until("the worker to join", async || {
        // While its container starts there is no agent to ask.
        let status = agent_status(trial, &pod, name).unwrap_or_default();
        Ok((status["brokerState"] == "quorum").then_some(()))
    })
    .await
}

/// Which pods the two workers are.
async fn workers(trial: &Trial, name: &str) -> Result<Vec<String>> {
    let mut workers = Vec::new();
    for index in [1, 2] {
        workers.push(trial.pod(name, index).await?.context("no worker")?.name_any());
    }
    Ok(workers)
}

/// The lead has read that it needs three; the kubelet brings it the new number within a minute or so.
#[test]
#[ignore = "needs a cluster"]
fn a_size_that_is_reduced_before_the_quorum_is_all_that_the_lead_waits_for() {
    trial("fewer", &[], async |trial| {
        let container =
            format!("launcher: true, command: 'echo once; flux run -N2 hostname', {HELD_UP}");
        run(trial, "fewer", "size: 3", &container).await?;
        let lead = said(trial, "fewer", 0, "starting the broker").await?.uid();
        let_go(trial, "fewer", 1).await?;
        said(trial, "fewer", 1, "starting the broker").await?;
        trial.edit("fewer", &json!({ "size": 2 })).await?;
        let again = said(trial, "fewer", 0, "2 brokers are enough now").await?.uid();
        ensure!(lead == again, "the lead is another one");
        complete(trial, "fewer").await?;
        each_once(&lead_log(trial, "fewer").await?, &["once", "fewer-0", "fewer-1"])
    });
}

/// Deletes the lead while its `commands.post` runs.
async fn delete_in_post(trial: &Trial, name: &str) -> Result<()> {
    let lead = said(trial, name, 0, "after").await?.name_any();
    trial.api::<Pod>().delete(&lead, &DeleteParams::default()).await?;
    Ok(())
}

#[test]
#[ignore = "needs a cluster"]
fn a_command_that_has_ended_counts_although_its_lead_is_deleted_in_the_post_hook() {
    trial("post", &[], async |trial| {
        let wait = "until test -e /tmp/go; do sleep 0.2; done; echo done";
        let ended = |code: i32| {
            format!("command: 'echo once; exit {code}', commands: {{post: 'echo after; {wait}'}}")
        };
        run(trial, "good", "size: 1", &ended(0)).await?;
        run(trial, "bad", "size: 1", &ended(7)).await?;
        // Nobody lets this one go on.
        run(trial, "stuck", "size: 1, flux: {drainSeconds: 5}", &ended(0)).await?;
        for name in ["good", "bad", "stuck"] {
            delete_in_post(trial, name).await?;
        }
        go(trial, "good", 0).await?;
        go(trial, "bad", 0).await?;
        for name in ["good", "stuck"] {
            let cluster = complete(trial, name).await?;
            let code = cluster.status.and_then(|status| status.exit_code);
            ensure!(code == Some(0), "{name}: {code:?}");
        }
        let cluster = trial.await_finished("bad", DEADLINE).await?;
        let (code, reason, message) = failure(&cluster)?;
        ensure!((code, reason) == (Some(7), "CommandFailed"), "{code:?} {reason}: {message}");
        for name in ["good", "bad", "stuck"] {
            let made = pods_made(trial, name).await?;
            ensure!(made == 1, "{name}: {made} pods were made");
        }
        Ok(())
    });
}
