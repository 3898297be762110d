//! The operator is killed while commands run and while they end.

use anyhow::{Context as _, Result, ensure};
use e2e::trial::{Trial, logs::container_log};
use k8s_openapi::api::batch::v1::Job;
use kube::{ResourceExt as _, runtime::wait::await_condition};

use super::{
    DEADLINE, Plane, UNTIL_TOLD, address_of_lead, await_ready, ended_once, ends_when_told,
    minicluster, operator::Operators, tell, until,
};

const PORT: u16 = 18080;

/// One command ends while no operator runs, one when the next runs, and one has ended before, but its hook has not.
pub(super) async fn an_operator_that_is_back_tells_what_happened_without_it(
    plane: &Plane<'_>,
    trial: &Trial,
) -> Result<()> {
    let operators = Operators::prepare(plane, trial).await?;
    let operator = operators.start("first", PORT)?;
    trial.apply(&ends_when_told("without", "size: 2,", 7)).await?;
    trial.apply(&ends_when_told("after", "size: 1,", 0)).await?;
    trial.apply(&with_a_hook("ending")).await?;
    for name in ["without", "after"] {
        await_ready(trial, name).await.with_context(|| operator.tail())?;
    }
    until("the hook to run", async || {
        let Some(lead) = trial.pod("ending", 0).await? else { return Ok(None) };
        // Until its container runs there is no log.
        let log = container_log(trial, &lead, "ending").await.unwrap_or_default();
        Ok(log.lines().any(|line| line == "hook").then_some(()))
    })
    .await?;
    operator.kill()?;
    tell(&address_of_lead(trial, "without").await?).await?;
    job_ends(trial, "without").await?;
    operators.forget_holder().await?;
    let next = operators.start("next", PORT)?;
    ended_once(trial, "without", 2, 7).await.with_context(|| next.tail())?;
    // It is told, and the operator is killed while it ends.
    tell(&address_of_lead(trial, "ending").await?).await?;
    next.kill()?;
    operators.forget_holder().await?;
    let mut last = operators.start("last", PORT)?;
    tell(&address_of_lead(trial, "after").await?).await?;
    for name in ["ending", "after"] {
        ended_once(trial, name, 1, 0).await.with_context(|| last.tail())?;
    }
    last.ensure_alive()
}

/// Its command has ended, but the hook after it waits until it is told.
fn with_a_hook(name: &str) -> String {
    let hook = format!("post: 'echo hook; {UNTIL_TOLD}'");
    let container =
        format!("{{image: 'ubuntu:24.04', command: 'echo once', commands: {{{hook}}}}}");
    minicluster(name, &format!("{{size: 1, containers: [{container}]}}"))
}

/// Waits until the Job has ended, which takes no operator.
async fn job_ends(trial: &Trial, name: &str) -> Result<()> {
    let failed = await_condition(trial.api::<Job>(), name, |job: Option<&Job>| {
        let status = job.and_then(|job| job.status.as_ref());
        let mut all = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
        all.any(|condition| condition.type_ == "Failed" && condition.status == "True")
    });
    let failed = tokio::time::timeout(DEADLINE, failed).await;
    let job = failed.with_context(|| format!("waiting for the Job {name} to fail"))??;
    ensure!(job.is_some_and(|job| job.name_any() == name), "the Job {name} is gone");
    Ok(())
}
