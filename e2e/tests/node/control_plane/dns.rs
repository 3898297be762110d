//! The cluster's DNS answers nothing, or what was true a while ago.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::{
    kubernetes::Program,
    trial::{Trial, logs::container_log},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::DeleteParams};

use super::{
    Plane, address_of_lead, await_brokers, await_ready, ended_once, minicluster, pod, until,
};

/// How long it answers nothing.
const DOWN: Duration = Duration::from_secs(20);

const CERTIFICATE: &str = include_str!("../../../../examples/bursting/1-certificate.yaml");
const FIRST: &str = include_str!("../../../../examples/bursting/minicluster.yaml");
const LATER: &str = include_str!("../../../../examples/bursting/later/child.yaml");

/// Brokers of one MiniCluster find each other without DNS. Those of another, which have only a name, wait for it
/// and say so.
pub(super) async fn names_that_nobody_answers_are_waited_for(
    plane: &Plane<'_>,
    trial: &Trial,
) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("certificate.yaml");
    std::fs::write(&file, CERTIFICATE)?;
    plane.kubectl(&["apply", "-n", trial.namespace(), "-f", &file.display().to_string()])?;
    let first = trial.apply(FIRST).await?;
    await_ready(trial, &first).await?;

    plane.cluster.halt(Program::Dns)?;
    let down = tokio::time::sleep(DOWN);
    let meanwhile = without_dns(trial).await;
    down.await;
    plane.cluster.resume(Program::Dns)?;
    let later = meanwhile?;
    await_brokers(trial, &later, 2).await?;
    plane.await_up(trial, &first, "4").await
}

/// Returns the name of the MiniCluster that waits.
async fn without_dns(trial: &Trial) -> Result<String> {
    let later = trial.apply(LATER).await?;
    let container =
        "{image: 'ubuntu:24.04', launcher: true, command: 'echo once; flux run -N2 hostname'}";
    trial.apply(&minicluster("plain", &format!("{{size: 2, containers: [{container}]}}"))).await?;
    ended_once(trial, "plain", 2, 0).await?;
    until("a broker to say that it waits for DNS", async || {
        let Some(pod) = trial.pod(&later, 0).await? else { return Ok(None) };
        // Until its container runs there is no log.
        let log = container_log(trial, &pod, &later).await.unwrap_or_default();
        let waits = |line: &str| line.contains("the name servers gave no answer for bursting-lead");
        Ok(log.lines().any(waits).then_some(()))
    })
    .await?;
    Ok(later)
}

/// Workers find the lead by an address that stays.
pub(super) async fn a_new_lead_is_found_while_its_name_leads_to_the_old_one(
    plane: &Plane<'_>,
    trial: &Trial,
) -> Result<()> {
    let name = "people";
    let spec = "{size: 2, interactive: true, containers: [{image: 'ubuntu:24.04'}]}";
    trial.apply(&minicluster(name, spec)).await?;
    await_ready(trial, name).await?;
    plane.await_up(trial, name, "2").await?;
    let worker = pod(trial, name, 1).await?;
    let answer = || {
        let host = format!("{name}-0.{name}.{}.svc.cluster.local", trial.namespace());
        let told = plane.exec(trial, name, &worker.name_any(), &["getent", "hosts", &host])?;
        told.split_whitespace().next().map(str::to_owned).context("no address")
    };
    let before = address_of_lead(trial, name).await?;
    // Who has asked too early has been told that there is no such name, which is kept for a while.
    let told = until("the name of the lead", async || Ok(answer().ok())).await?;
    ensure!(told == before, "the lead is at {before}, and DNS says {told}");

    let lead = pod(trial, name, 0).await?;
    trial.api::<Pod>().delete(&lead.name_any(), &DeleteParams::default()).await?;
    until("another lead", async || {
        let pod = trial.pod(name, 0).await?;
        Ok(pod.filter(|pod| pod.uid() != lead.uid()))
    })
    .await?;
    plane.await_up(trial, name, "2").await?;
    let (after, told) = (address_of_lead(trial, name).await?, answer()?);
    ensure!(after != before && told == before, "the lead is at {after}, and DNS says {told}");
    ensure!(pod(trial, name, 1).await?.uid() == worker.uid(), "the worker was made again");
    await_brokers(trial, name, 2).await
}
