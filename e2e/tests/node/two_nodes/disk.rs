//! A node runs short of disk.

use anyhow::{Result, ensure};
use e2e::trial::Trial;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::loss::await_elsewhere;
use super::{Pair, SECOND, until};

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
    let evicted = evicted(pair, trial, &lead, &worker).await;
    pair.cluster.clear_disk(SECOND)?;
    evicted
}

async fn evicted(pair: &Pair<'_>, trial: &Trial, lead: &Pod, worker: &Pod) -> Result<()> {
    let node = format!("node/{SECOND}");
    pair.kubectl(&["wait", &node, "--for=condition=DiskPressure=True", "--timeout=2m"])?;
    let message = Box::pin(await_elsewhere(pair, trial, lead, worker, "Evicted")).await?;
    ensure!(message.contains("low on resource: ephemeral-storage"), "{message}");
    Ok(())
}
