//! Where brokers are, and how they leave a node.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use e2e::trial::{Trial, condition, is_true, logs::container_log};
use flux_contract::labels;
use flux_operator::crd::{InstallMethod, MiniCluster};
use kube::ResourceExt as _;

use super::{
    DEADLINE, FIRST, FLUX, Pair, SECOND, another, minicluster, node_of, pod, times, until,
};

/// Runs a command on a broker of each node, to which nothing but the operator's preferences brings them.
pub(super) async fn one_broker_comes_to_each_node(pair: &Pair<'_>, trial: &Trial) -> Result<()> {
    let name = "each";
    let spec = "{size: 2, containers: [{image: 'ubuntu:24.04', launcher: true, \
                command: 'until test -e /tmp/go; do sleep 0.1; done; flux run -N2 hostname'}]}";
    trial.apply(&minicluster(name, spec)).await?;
    until("both pods to have a node", async || {
        let pods = trial.pods(name).await?;
        let placed = pods.iter().filter(|pod| node_of(pod) != "no node").count();
        Ok((placed == 2).then_some(()))
    })
    .await?;
    let (one, other) = (pod(trial, name, 0).await?, pod(trial, name, 1).await?);
    let mut nodes = [node_of(&one), node_of(&other)];
    nodes.sort_unstable();
    ensure!(nodes == [FIRST, SECOND], "the brokers are on {nodes:?}");
    pair.await_up(trial, name, "2").await?;
    pair.exec(trial, name, &one.name_any(), &["touch", "/tmp/go"])?;
    let cluster = trial.await_finished(name, DEADLINE).await?;
    ensure!(is_true(&cluster, "Complete"), "{:?}", cluster.status);
    let log = container_log(trial, &one, name).await?;
    ensure!(times(&log, "each-0") == 1 && times(&log, "each-1") == 1, "{log}");
    Ok(())
}

/// One node has image volumes: images are copied, unless the user insists, and then the condition names the fault.
pub(super) async fn an_image_that_one_node_cannot_mount_is_copied(
    pair: &Pair<'_>,
    trial: &Trial,
) -> Result<()> {
    let lack = format!("node {SECOND} runs containerd 2.0.");
    let run = "containers: [{image: 'ubuntu:24.04', command: 'echo done'}]";
    trial.apply(&minicluster("copied", &format!("{{size: 2, {run}}}"))).await?;
    let cluster = trial.await_finished("copied", DEADLINE).await?;
    ensure!(is_true(&cluster, "Complete"), "{:?}", cluster.status);
    let (method, reason) = install(&cluster).context("nothing is said of the install")?;
    ensure!(method == InstallMethod::Copy && reason.starts_with(&lack), "{method:?}: {reason}");

    pair.kubectl(&["cordon", FIRST])?;
    let spec = format!("{{size: 1, flux: {{container: {{install: Image}}}}, {run}}}");
    let said = mounted_all_the_same(trial, &spec, &lack).await;
    pair.kubectl(&["uncordon", FIRST])?;
    said
}

/// The pod waits, and the status says for what.
async fn mounted_all_the_same(trial: &Trial, spec: &str, lack: &str) -> Result<()> {
    trial.apply(&minicluster("mounted", spec)).await?;
    let waits = |cluster: Option<&MiniCluster>| {
        let progress = cluster.and_then(|cluster| condition(cluster, "Progressing"));
        progress.is_some_and(|(_, _, message)| message.contains("CreateContainerError"))
    };
    let cluster = trial.await_minicluster("mounted", "told what is amiss", DEADLINE, waits).await?;
    let (method, reason) = install(&cluster).context("nothing is said of the install")?;
    let told = reason.starts_with("asked for, but will not work: ") && reason.contains(lack);
    ensure!(method == InstallMethod::Image && told, "{method:?}: {reason}");
    Ok(())
}

fn install(cluster: &MiniCluster) -> Option<(InstallMethod, &str)> {
    let install = cluster.status.as_ref()?.install.as_ref()?;
    Some((install.method, &install.reason))
}

/// `kubectl drain` waits for the job on the rank; then the Job makes the worker's pod on the other node.
pub(super) async fn a_rank_leaves_in_order_when_its_node_is_drained(
    pair: &Pair<'_>,
    trial: &Trial,
) -> Result<()> {
    let name = "drained";
    let spec =
        "interactive: true, flux: {drainSeconds: 300}, containers: [{image: 'ubuntu:24.04'}]";
    let lead = pair.apart(trial, name, spec, FIRST).await?;
    let flux = |words: &[&str]| pair.exec(trial, name, &lead, &[&[FLUX], words].concat());
    let task = "until test -e /tmp/go; do sleep 0.1; done";
    flux(&["submit", "-N2", "-n2", "sh", "-c", task])?;
    let status = || flux(&["jobs", "-a", "-no", "{status}"]);
    until("the job to run", async || Ok((status()?.trim() == "RUN").then_some(()))).await?;

    let before = pod(trial, name, 1).await?;
    // Not what other cases have left.
    let pods = format!("--pod-selector={}={name}", labels::NAME);
    let words = ["drain", SECOND, "--delete-emptydir-data", "--timeout=3m", &pods];
    let mut drain = pair.cluster.kubectl(words);
    let drain = drain.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let drained = || flux(&["resource", "drain", "-no", "{ranks} {reason}"]);
    until("the rank to be drained", async || Ok((!drained()?.is_empty()).then_some(()))).await?;
    let said = drained()?;
    ensure!(said == "1 flux-agent: its pod is stopping\n", "{said}");
    for pod in [&lead, &before.name_any()] {
        pair.exec(trial, name, pod, &["touch", "/tmp/go"])?;
    }
    let ended = drain.wait_with_output().context("waiting for kubectl drain")?;
    ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let status = status()?;
    ensure!(status.trim() == "COMPLETED", "the job is {status}");

    let after = another(trial, name, 1, &before).await?;
    ensure!(node_of(&after) == FIRST, "the worker is on {}", node_of(&after));
    pair.await_up(trial, name, "2").await?;
    let said = drained()?;
    ensure!(said.is_empty(), "still drained: {said}");
    pair.kubectl(&["uncordon", SECOND])?;
    Ok(())
}
