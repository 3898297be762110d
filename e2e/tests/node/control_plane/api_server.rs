//! The API server answers nothing.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, ensure};
use e2e::{
    kubernetes::Program,
    trial::{Trial, is_true, logs::container_log},
};
use kube::ResourceExt;

use super::{
    DEADLINE, Plane, address_of_lead, await_ready, ended_once, ends_when_told, minicluster, pod,
    tell, until,
};

/// How long it is away: longer than an operator may hold a Lease that it cannot renew.
const AWAY: Duration = Duration::from_secs(20);
/// Longest time between two jobs of an instance that goes on, on a machine that is busy.
const GAP: u64 = 8;

/// An instance goes on with its jobs, and commands end, with 0 and with 7, while nobody can be told.
pub(super) async fn commands_go_on_and_end_while_the_api_server_is_away(
    plane: &Plane<'_>,
    trial: &Trial,
) -> Result<()> {
    trial.apply(&jobs_until_told("jobs")).await?;
    let ends = [("good", 0), ("bad", 7)];
    for (name, code) in ends {
        trial.apply(&ends_when_told(name, "size: 1,", code)).await?;
    }
    let mut addresses = Vec::new();
    for (name, _) in ends {
        await_ready(trial, name).await?;
        addresses.push(address_of_lead(trial, name).await?);
    }
    await_ready(trial, "jobs").await?;
    let lead = pod(trial, "jobs", 0).await?.metadata.name.context("a pod without a name")?;
    until("a job of both brokers", async || {
        let log = container_log(trial, &pod(trial, "jobs", 0).await?, "jobs").await?;
        Ok((!seconds(&log).is_empty()).then_some(()))
    })
    .await?;

    let before = names_of_pods(trial, "jobs").await?;
    plane.cluster.halt(Program::ApiServer)?;
    let (begin, away) = (now()?, tokio::time::sleep(AWAY));
    let mut told = Ok(());
    for address in &addresses {
        told = told.and(tell(address).await);
    }
    away.await;
    let end = now()?;
    plane.cluster.resume(Program::ApiServer)?;
    told?;

    for (name, code) in ends {
        ended_once(trial, name, 1, code.into()).await?;
    }
    // When a Job ends, Kubernetes deletes the workers that are left.
    let after = names_of_pods(trial, "jobs").await?;
    ensure!(after == before, "the pods {before:?} are {after:?} now");
    plane.exec(trial, "jobs", &lead, &["touch", "/tmp/go"])?;
    let cluster = trial.await_finished("jobs", DEADLINE).await?;
    ensure!(is_true(&cluster, "Complete"), "{:?}", cluster.status);
    let log = container_log(trial, &pod(trial, "jobs", 0).await?, "jobs").await?;
    let seen = seconds(&log);
    let within: Vec<u64> = seen.into_iter().filter(|it| (begin..=end).contains(it)).collect();
    let times = [&[begin], &within[..], &[end]].concat();
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    let longest = gaps.max().unwrap_or_default();
    ensure!(longest <= GAP, "no job ran for {longest} s while the API server was away:\n{log}");
    Ok(())
}

/// Names of the pods of a MiniCluster.
async fn names_of_pods(trial: &Trial, name: &str) -> Result<BTreeSet<String>> {
    Ok(trial.pods(name).await?.iter().map(ResourceExt::name_any).collect())
}

/// Runs one job after the other on both of its brokers, and tells when each has ended.
fn jobs_until_told(name: &str) -> String {
    let command =
        "until test -e /tmp/go; do flux run -N2 hostname; echo at $(date +%s); sleep 0.5; done";
    let container = format!("{{image: 'ubuntu:24.04', launcher: true, command: '{command}'}}");
    minicluster(name, &format!("{{size: 2, containers: [{container}]}}"))
}

/// When jobs have ended.
fn seconds(log: &str) -> Vec<u64> {
    log.lines().filter_map(|line| line.strip_prefix("at ")?.trim().parse().ok()).collect()
}

fn now() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}
