//! The operator is killed while commands run and while they end.

use anyhow::{Context as _, Result, ensure};
use e2e::trial::{Trial, logs::container_log};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{ResourceExt as _, runtime::wait::await_condition};
use serde_json::json;

use super::{
    DEADLINE, Plane, UNTIL_TOLD, address_of_lead, await_ready, ended_once, ends_when_told,
    minicluster, operator::Operators, pod, tell, until,
};

const PORT: u16 = 18080;

/// One command loses a worker and ends while no operator runs, one is suspended and resumed meanwhile and ends when
/// the next operator runs, and one has ended before, but its hook has not.
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
    lose_worker(trial, "without").await?;
    suspend_and_resume(trial, "after").await?;
    tell(&address_of_lead(trial, "without").await?).await?;
    job_ends(trial, "without").await?;
    operators.forget_holder().await?;
    let next = operators.start("next", PORT)?;
    ended_once(trial, "without", 2, 7).await.with_context(|| next.tail())?;
    // It may end, and the operator is killed while it ends.
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

/// Deletes a worker, and waits until the Job, which takes no operator, has made another that is ready.
async fn lose_worker(trial: &Trial, name: &str) -> Result<()> {
    let worker = pod(trial, name, 1).await?;
    let pods = trial.api::<Pod>();
    pods.delete(&worker.name_any(), &DeleteParams::default()).await.context("deleting a worker")?;
    until("another worker", async || {
        let other = trial.pod(name, 1).await?.filter(|pod| pod.uid() != worker.uid());
        Ok(other.filter(is_ready).map(drop))
    })
    .await
}

/// Suspends and resumes the Job, as a queue does.
async fn suspend_and_resume(trial: &Trial, name: &str) -> Result<()> {
    let jobs = trial.api::<Job>();
    let set = async |suspend: bool| {
        let patch = Patch::Merge(json!({ "spec": { "suspend": suspend } }));
        jobs.patch(name, &PatchParams::default(), &patch).await.context("suspending a Job")
    };
    set(true).await?;
    until("the pods to go", async || Ok(trial.pods(name).await?.is_empty().then_some(()))).await?;
    set(false).await?;
    until("the next lead", async || Ok(trial.pod(name, 0).await?.filter(is_ready).map(drop))).await
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True")
}

/// Its command has ended, but the hook after it waits for a connection.
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
