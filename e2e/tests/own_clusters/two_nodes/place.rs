//! The nodes of brokers, and how brokers leave a node.

use super::{FIRST, SECOND, apart, node_of};
use crate::prelude::*;
use flux_api::crd::{InstallMethod, Installed};
use flux_contract::labels;
use std::process::Stdio;

/// Runs a command on a broker of each node: only the operator's preferences spread the pods.
pub(super) async fn one_broker_comes_to_each_node(trial: &Trial) -> Result<()> {
    let run = trial.run("each", "size: 2", &then_on(2)).await?;
    run.up(2).await?;
    let (one, other) = (run.pod(0).await?, run.pod(1).await?);
    let mut nodes = [node_of(&one), node_of(&other)];
    nodes.sort_unstable();
    ensure!(nodes == [FIRST, SECOND], "the brokers are on {nodes:?}");
    run.ends_on(2).await
}

/// Only one node has image volumes. So the operator copies images; if the user insists on mounting, the pod waits, and
/// the condition names the fault.
pub(super) async fn an_image_that_one_node_cannot_mount_is_copied(trial: &Trial) -> Result<()> {
    let lack = format!("node {SECOND} runs containerd 2.0.");
    let copied = trial.run("copied", "size: 2", "command: 'echo done'").await?;
    copied.complete().await?;
    let Installed { method, reason } = copied.installed().await?;
    ensure!(method == InstallMethod::Copy && reason.starts_with(&lack), "{method:?}: {reason}");

    trial.kubectl(&["cordon", FIRST])?;
    let fields = "size: 1, flux: {container: {install: Image}}";
    let mounted = trial.run("mounted", fields, "command: 'echo done'").await?;
    mounted.await_condition("Progressing", "CreateContainerError").await?;
    trial.kubectl(&["uncordon", FIRST])?;
    let Installed { method, reason } = mounted.installed().await?;
    let is_named = reason.starts_with("requested, and may not work: ") && reason.contains(&lack);
    ensure!(method == InstallMethod::Image && is_named, "{method:?}: {reason}");
    Ok(())
}

/// `kubectl drain` waits for the job on the rank; then the Job makes the worker's pod on the other node.
pub(super) async fn a_rank_leaves_in_order_when_its_node_is_drained(trial: &Trial) -> Result<()> {
    let fields = "interactive: true, flux: {drainSeconds: 300}";
    let run = apart(trial, "drained", fields, "", FIRST).await?;
    run.job("2", "until test -e /tmp/go; do sleep 0.1; done").await?;
    let before = run.pod(1).await?;
    // Without the pods of other cases.
    let pods = format!("--pod-selector={}=drained", labels::NAME);
    let words = ["drain", SECOND, "--delete-emptydir-data", "--timeout=3m", &pods];
    let mut drain = trial.own()?.kubectl(words);
    let drain = drain.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    until_true("the drain", async || Ok(!run.drained().await?.is_empty())).await?;
    let drained = run.drained().await?;
    ensure!(drained == "1 flux-agent: its pod is stopping", "{drained}");
    run.go_all(2).await?;
    let ended = drain.wait_with_output().context("waiting for kubectl drain")?;
    ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let status = run.jobs().await?;
    ensure!(status == "COMPLETED", "the job is {status}");

    let after = run.another(1, &before).await?;
    ensure!(node_of(&after) == FIRST, "the worker is on {}", node_of(&after));
    run.up(2).await?;
    let drained = run.drained().await?;
    ensure!(drained.is_empty(), "still drained: {drained}");
    trial.kubectl(&["uncordon", SECOND]).map(drop)
}
