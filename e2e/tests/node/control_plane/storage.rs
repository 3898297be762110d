//! What the API server keeps its objects in is slow.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, ensure};
use e2e::{
    kubernetes::{Kubernetes, Program},
    trial::Trial,
};
use flux_operator::crd::MiniCluster;
use kube::{
    api::DeleteParams,
    runtime::wait::{await_condition, conditions::is_deleted},
};
use serde_json::json;

use super::{
    DEADLINE, Plane, address_of_lead, await_brokers, await_ready, ended_once, ends_when_told,
    minicluster, tell,
};

/// How long etcd answers nothing, again and again.
const HALTED: Duration = Duration::from_millis(1_500);
/// How long it answers in between.
const ANSWERS: Duration = Duration::from_millis(200);

/// MiniClusters are created, scaled, ended and deleted while requests take seconds.
pub(super) async fn slow_storage_only_takes_its_time(
    plane: &Plane<'_>,
    trial: &Trial,
) -> Result<()> {
    let mut audit = plane.audit()?;
    let (used, end) = channel();
    let cluster = plane.cluster.clone();
    let slowed = std::thread::spawn(move || slow_down(&cluster, &end));
    let outcome = create_scale_and_end(trial).await;
    drop(used);
    let slowed = slowed.join().map_err(|_| anyhow!("slowing etcd down panicked"))?;
    outcome.and(slowed)?;
    let requests = audit.operator()?;
    let slow = requests.iter().filter(|it| it.is_write() && it.took() > HALTED / 3).count();
    ensure!(slow > 0, "no write of the operator was slow");
    Ok(())
}

/// Halts etcd again and again, until nobody uses it any more.
fn slow_down(cluster: &Kubernetes, end: &Receiver<()>) -> Result<()> {
    let over = |after| end.recv_timeout(after) == Err(RecvTimeoutError::Disconnected);
    loop {
        cluster.halt(Program::Etcd)?;
        let is_over = over(HALTED);
        cluster.resume(Program::Etcd)?;
        if is_over || over(ANSWERS) {
            return Ok(());
        }
    }
}

async fn create_scale_and_end(trial: &Trial) -> Result<()> {
    let people = "{size: 1, maxSize: 2, interactive: true, containers: [{image: 'ubuntu:24.04'}]}";
    trial.apply(&minicluster("people", people)).await?;
    let ends = [("good", 0), ("bad", 7)];
    for (name, code) in ends {
        trial.apply(&ends_when_told(name, "size: 1,", code)).await?;
    }
    await_ready(trial, "people").await?;
    let clusters = trial.api::<MiniCluster>();
    trial.edit("people", &json!({ "size": 2 })).await?;
    for (name, code) in ends {
        await_ready(trial, name).await?;
        tell(&address_of_lead(trial, name).await?).await?;
        ended_once(trial, name, 1, code.into()).await?;
    }
    await_brokers(trial, "people", 2).await?;
    let uid = clusters.get("people").await?.metadata.uid.unwrap_or_default();
    clusters.delete("people", &DeleteParams::foreground()).await?;
    let gone = await_condition(clusters, "people", is_deleted(&uid));
    tokio::time::timeout(DEADLINE, gone).await.context("waiting for the deletion")??;
    let left = trial.pods("people").await?;
    ensure!(left.is_empty(), "{} pods are left", left.len());
    Ok(())
}
