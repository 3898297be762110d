//! A node runs short of disk.

use anyhow::{Context as _, Result, ensure};
use e2e::trial::{Trial, condition, logs::container_log};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::loss::await_running;
use super::{DEADLINE, FIRST, Pair, SECOND, another, node_of, times, until};

/// The kubelet evicts one pod after the other, and the scheduler puts none there meanwhile.
pub(super) async fn pods_of_a_node_that_runs_short_of_disk_are_evicted(
    pair: &Pair<'_>,
    trial: &Trial,
) -> Result<()> {
    let (lead, worker) = pair.lead_and_worker_on_second(trial).await?;
    pair.cluster.limit_disk(pair.options, SECOND)?;
    // Pods that it does not know yet when the disk is full it rejects.
    for (name, pod) in [("once", &lead), ("people", &worker)] {
        let known = || pair.exec(trial, name, &pod.name_any(), &["true"]).is_ok();
        until("the kubelet to know its pods", async || Ok(known().then_some(()))).await?;
    }
    pair.cluster.fill_disk(SECOND)?;
    let evicted = Box::pin(evicted(pair, trial, &lead, &worker)).await;
    pair.cluster.clear_disk(SECOND)?;
    evicted
}

async fn evicted(pair: &Pair<'_>, trial: &Trial, lead: &Pod, worker: &Pod) -> Result<()> {
    let node = format!("node/{SECOND}");
    pair.kubectl(&["wait", &node, "--for=condition=DiskPressure=True", "--timeout=2m"])?;
    let again = another(trial, "people", 1, worker).await?;
    ensure!(node_of(&again) == FIRST, "the worker is on {}", node_of(&again));
    pair.await_up(trial, "people", "2").await?;
    await_running(trial, "people").await?;

    let cluster = trial.await_finished("once", DEADLINE).await?;
    let (status, reason, message) = condition(&cluster, "Failed").context("no condition")?;
    ensure!(status == "True" && reason == "Evicted", "{status}: {reason}: {message}");
    ensure!(message.contains("low on resource: ephemeral-storage"), "{message}");
    for pod in trial.pods("once").await?.iter().filter(|pod| pod.uid() != lead.uid()) {
        let log = container_log(trial, pod, "once").await.unwrap_or_default();
        ensure!(times(&log, "once") == 0, "{} ran it: {log}", pod.name_any());
    }
    Ok(())
}
