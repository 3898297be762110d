//! How long a MiniCluster may take to start, and how long it stays when it has finished.

use crate::{DEADLINE, apply, complete, trial};
use anyhow::{Context as _, Result, ensure};
use e2e::trial::condition;
use flux_operator::crd::{MiniCluster, State};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::api::ListParams;
use kube::runtime::wait::{await_condition, conditions::is_deleted};
use std::time::{Duration, Instant};

#[test]
#[ignore = "needs a cluster"]
fn a_finished_minicluster_frees_its_addresses_and_goes_when_its_time_is_over() {
    trial("expiry", &[], async |trial| {
        let spec = "{size: 2, ttlSecondsAfterFinished: 10, containers: [{image: 'ubuntu:24.04', command: 'true'}]}";
        let name = apply(trial, "expiry", spec).await?;
        let finished = complete(trial, &name).await?;
        let seen = Instant::now();
        let services = trial.api::<Service>().list(&ListParams::default()).await?;
        let left: Vec<String> = services.items.iter().map(ResourceExt::name_any).collect();
        ensure!(left == ["expiry"], "Services that are left: {left:?}");
        let uid = finished.metadata.uid.as_ref().context("no uid")?;
        let gone = await_condition(trial.api::<MiniCluster>(), &name, is_deleted(uid));
        tokio::time::timeout(DEADLINE, gone).await.context("waiting for the end of its time")??;
        // Its end is seen a moment after it was.
        ensure!(seen.elapsed() > Duration::from_secs(5), "it stayed for {:?}", seen.elapsed());
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn what_does_not_start_in_time_fails_with_what_it_waited_for() {
    trial("late", &[], async |trial| {
        let spec = "{size: 1, startDeadlineSeconds: 12, pod: {nodeSelector: {pool: none}}, \
                    containers: [{image: 'ubuntu:24.04', command: 'true'}]}";
        let name = apply(trial, "late", spec).await?;
        let cluster: MiniCluster = trial.await_finished(&name, DEADLINE).await?;
        let state = cluster.status.as_ref().and_then(|status| status.state);
        ensure!(state == Some(State::Failed), "it is {state:?}");
        let (_, reason, message) = condition(&cluster, "Failed").context("no condition")?;
        ensure!(reason == "StartDeadlineExceeded", "{reason}: {message}");
        let told = message.contains("12 seconds of spec.startDeadlineSeconds")
            && message.contains("has no node");
        ensure!(told, "{message}");
        let pods = trial.pods(&name).await?;
        ensure!(pods.is_empty(), "{} pods are left", pods.len());
        Ok::<(), anyhow::Error>(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn what_has_started_in_time_may_take_longer() {
    trial("in-time", &[], async |trial| -> Result<()> {
        let spec = "{size: 1, startDeadlineSeconds: 60, \
                    containers: [{image: 'ubuntu:24.04', command: 'sleep 65'}]}";
        let name = apply(trial, "in-time", spec).await?;
        complete(trial, &name).await.map(drop)
    });
}
