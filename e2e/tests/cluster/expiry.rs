//! How long a MiniCluster may take to start.

use crate::{DEADLINE, apply, trial};
use anyhow::{Context as _, ensure};
use e2e::trial::condition;
use flux_operator::crd::{MiniCluster, State};

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
