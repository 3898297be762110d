//! The operator's clock jumps an hour ahead, and back.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::{
    audit, programs,
    trial::{Trial, condition, is_true},
};
use flux_operator::crd::MiniCluster;
use serde_json::json;

use super::{
    DEADLINE, Plane, address_of_lead, await_ready, ended_once, ends_when_told, minicluster,
    operator::Operators, tell, until,
};

const AHEAD: &str = "+3600";
const RIGHT: &str = "+0";
/// Renewals of the Lease that take longer than it lasts without one.
const RENEWALS: usize = 8;

/// What has a time of two hours, what is counted by others, and the Lease, are as before. Only what had less than an
/// hour is over when the operator looks at it, because its clock says so.
pub(super) async fn a_clock_that_jumps_ends_what_its_time_is_over_for_and_nothing_else(
    plane: &Plane<'_>,
    trial: &Trial,
) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let clock = directory.path().join("clock");
    std::fs::write(&clock, RIGHT)?;
    let mut library = Command::new("faketime");
    let library = programs::run(library.args(["-f", RIGHT, "printenv", "LD_PRELOAD"]))?;
    let library = String::from_utf8(library.stdout)?;
    let operators = Operators::prepare(plane, trial).await?;
    let mut operator = operators.start_with("jumps", 18080, |command| {
        command.env("LD_PRELOAD", library.trim()).env("FAKETIME_TIMESTAMP_FILE", &clock);
        // The time that has passed is another clock, and goes on.
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("FAKETIME_NO_CACHE", "1");
    })?;
    operator.await_acting().await.with_context(|| operator.tail())?;
    let mut other = operators.start("other", 18090)?;
    begin(trial).await.with_context(|| operator.tail())?;

    std::fs::write(&clock, AHEAD)?;
    jumped(trial).await.with_context(|| operator.tail())?;
    renewed(plane).await?;
    let holder = operators.holder().await?.unwrap_or_default();
    ensure!(holder.starts_with("jumps_"), "the Lease is held by {holder:?}");
    ensure!(!other.acts().await?.0, "the other acts: {}", other.tail());

    std::fs::write(&clock, RIGHT)?;
    tell(&address_of_lead(trial, "runs").await?).await?;
    ended_once(trial, "runs", 1, 0).await.with_context(|| operator.tail())?;
    trial.apply(&ends_when_told("later", "size: 1, startDeadlineSeconds: 600,", 7)).await?;
    await_ready(trial, "later").await?;
    tell(&address_of_lead(trial, "later").await?).await?;
    ended_once(trial, "later", 1, 7).await.with_context(|| operator.tail())?;
    unharmed(trial).await?;
    let holder = operators.holder().await?.unwrap_or_default();
    ensure!(holder.starts_with("jumps_"), "the Lease is held by {holder:?}");
    other.ensure_alive()?;
    operator.ensure_alive()
}

/// MiniClusters that run, have ended, or wait for a node, with two hours or with less than one.
async fn begin(trial: &Trial) -> Result<()> {
    let runs = "size: 1, deadlineSeconds: 600, startDeadlineSeconds: 600, \
                ttlSecondsAfterFinished: 7200,";
    trial.apply(&ends_when_told("runs", runs, 0)).await?;
    for (name, seconds) in [("waits", 7200), ("waits-less", 600)] {
        let nowhere = "pod: {nodeSelector: {e2e.invalid/none: none}}";
        let spec = format!("startDeadlineSeconds: {seconds}, {nowhere}, interactive: true");
        let spec = format!("{{size: 1, {spec}, containers: [{{image: 'ubuntu:24.04'}}]}}");
        trial.apply(&minicluster(name, &spec)).await?;
    }
    for (name, seconds) in [("stays", 7200), ("stays-less", 600)] {
        let container = "{image: 'ubuntu:24.04', command: 'echo once'}";
        let spec =
            format!("{{size: 1, ttlSecondsAfterFinished: {seconds}, containers: [{container}]}}");
        trial.apply(&minicluster(name, &spec)).await?;
        ended_once(trial, name, 1, 0).await?;
    }
    await_ready(trial, "runs").await
}

/// Lets the operator look at each, and waits until the time is over for those that had less than an hour.
async fn jumped(trial: &Trial) -> Result<()> {
    let clusters = trial.api::<MiniCluster>();
    // It looks at what is edited.
    for (name, seconds) in [("runs", 7201), ("waits", 7201), ("stays", 7201), ("stays-less", 601)] {
        trial.edit(name, &json!({ "ttlSecondsAfterFinished": seconds })).await?;
    }
    let cluster = trial.await_finished("waits-less", DEADLINE).await?;
    let (status, reason, message) = condition(&cluster, "Failed").context("no condition")?;
    let expected = status == "True" && reason == "StartDeadlineExceeded";
    ensure!(expected, "{status}: {reason}: {message}");
    until("what has expired to be gone", async || {
        Ok(clusters.get_opt("stays-less").await?.is_none().then_some(()))
    })
    .await?;
    let runs = clusters.get("runs").await?;
    ensure!(is_true(&runs, "Ready"), "it ran: {:?}", runs.status);
    unharmed(trial).await
}

/// What had two hours is as it was.
async fn unharmed(trial: &Trial) -> Result<()> {
    let clusters = trial.api::<MiniCluster>();
    let stays = clusters.get("stays").await.context("it had two hours to stay")?;
    ensure!(is_true(&stays, "Complete"), "it had ended: {:?}", stays.status);
    let waits = clusters.get("waits").await?;
    ensure!(!is_true(&waits, "Failed"), "it had two hours to start: {:?}", waits.status);
    Ok(())
}

/// Waits for longer than a Lease lasts that nobody renews.
async fn renewed(plane: &Plane<'_>) -> Result<()> {
    let mut requests = plane.audit()?;
    let mut renewals = 0;
    until("renewals of the Lease", async || {
        let of_lease = |object: &audit::Object| object.resource.as_deref() == Some("leases");
        let new = requests.operator()?.into_iter().filter(|request| {
            request.is_write() && request.object_ref.as_ref().is_some_and(of_lease)
        });
        renewals += new.count();
        Ok((renewals >= RENEWALS).then_some(()))
    })
    .await
}
