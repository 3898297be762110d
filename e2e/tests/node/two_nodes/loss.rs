//! A node is lost: its kubelet and all of its pods at once.

use anyhow::{Context as _, Result, ensure};
use e2e::trial::{Trial, condition, is_true, logs::container_log};
use flux_operator::crd::{MiniCluster, State};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::{
    DEADLINE, FIRST, GIVEN_UP_SOON, Pair, SECOND, another, await_given_up, node_of, pod, times,
};

const TAINT: &str = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";

/// Until the node is back nobody can know that its pods have ended, so nothing takes their place.
pub(super) async fn workers_of_a_lost_node_come_back_with_it(
    pair: &Pair<'_>,
    trial: &Trial,
) -> Result<()> {
    let people =
        format!("interactive: true, {GIVEN_UP_SOON}, containers: [{{image: 'ubuntu:24.04'}}]");
    let command = format!(
        "{GIVEN_UP_SOON}, containers: [{{image: 'ubuntu:24.04', launcher: true, command: 'echo begun; \
         until test -e /tmp/go; do sleep 0.2; done; flux run -N2 hostname; echo done'}}]"
    );
    let first_lead = pair.apart(trial, "people", &people, FIRST).await?;
    let lead = pair.apart(trial, "command", &command, FIRST).await?;
    let before = [pod(trial, "people", 1).await?, pod(trial, "command", 1).await?];
    pair.cluster.lose_node(SECOND)?;
    pair.await_second("Unknown")?;
    for name in ["people", "command"] {
        pair.await_up(trial, name, "1").await?;
        await_given_up(trial, name).await?;
    }
    pair.cluster.start_node(pair.options, SECOND, pair.progress)?;
    for (name, before) in ["people", "command"].into_iter().zip(&before) {
        another(trial, name, 1, before).await?;
        pair.await_up(trial, name, "2").await?;
    }
    await_running(trial, "people").await?;
    let lead_now = pod(trial, "people", 0).await?.name_any();
    ensure!(lead_now == first_lead, "the lead is another one");
    pair.exec(trial, "command", &lead, &["touch", "/tmp/go"])?;
    let cluster = trial.await_finished("command", DEADLINE).await?;
    ensure!(is_true(&cluster, "Complete"), "{:?}", cluster.status);
    let log = container_log(trial, &pod(trial, "command", 0).await?, "command").await?;
    for line in ["begun", "command-0", "command-1", "done"] {
        ensure!(times(&log, line) == 1, "not once {line}:\n{log}");
    }
    Ok(())
}

/// An administrator says that the node will not come back as it was.
pub(super) async fn pods_of_a_node_that_is_given_up_are_made_elsewhere(
    pair: &Pair<'_>,
    trial: &Trial,
) -> Result<()> {
    let (lead, worker) = pair.lead_and_worker_on_second(trial).await?;
    pair.cluster.lose_node(SECOND)?;
    pair.await_second("Unknown")?;
    pair.kubectl(&["taint", "node", SECOND, TAINT])?;
    let moved = Box::pin(await_elsewhere(pair, trial, &lead, &worker, "LeadLost")).await;
    pair.cluster.start_node(pair.options, SECOND, pair.progress)?;
    pair.kubectl(&["taint", "node", SECOND, &format!("{TAINT}-")])?;
    moved.map(drop)
}

/// Waits for what becomes of both MiniClusters when the second node has lost its pods: `people` gets another
/// worker in place of `worker`, on the first node; `once` ends for `reason`, and no pod runs again what its
/// `lead` ran. Gives the message of that end.
pub(super) async fn await_elsewhere(
    pair: &Pair<'_>,
    trial: &Trial,
    lead: &Pod,
    worker: &Pod,
    reason: &str,
) -> Result<String> {
    let again = another(trial, "people", 1, worker).await?;
    ensure!(node_of(&again) == FIRST, "the worker is on {}", node_of(&again));
    pair.await_up(trial, "people", "2").await?;
    await_running(trial, "people").await?;
    let cluster = trial.await_finished("once", DEADLINE).await?;
    let (status, found, message) = condition(&cluster, "Failed").context("no condition")?;
    ensure!(status == "True" && found == reason, "{status}: {found}: {message}");
    for pod in trial.pods("once").await?.iter().filter(|pod| pod.uid() != lead.uid()) {
        let log = container_log(trial, pod, "once").await.unwrap_or_default();
        ensure!(times(&log, "once") == 0, "{} ran it: {log}", pod.name_any());
    }
    Ok(message.to_owned())
}

/// Waits until the status says that both brokers are ready.
async fn await_running(trial: &Trial, name: &str) -> Result<()> {
    let whole = |cluster: Option<&MiniCluster>| {
        let status = cluster.and_then(|cluster| cluster.status.as_ref());
        status.is_some_and(|it| it.state == Some(State::Running) && it.ready_brokers == 2)
    };
    trial.await_minicluster(name, "running with two brokers", DEADLINE, whole).await?;
    Ok(())
}
