//! Workers that leave an instance that goes on, and the jobs on their ranks.

use crate::replace::await_up;
use crate::why::event;
use crate::{DEADLINE, apply, exec, ready_lead, trial, until};
use anyhow::{Context as _, Result, ensure};
use e2e::trial::{Trial, logs::container_log};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::wait::{await_condition, conditions::is_deleted};
use serde_json::json;

const FLUX: &str = "/mnt/flux/bin/flux";

/// What `flux` prints on the lead.
fn flux(trial: &Trial, lead: &str, name: &str, words: &[&str]) -> Result<String> {
    exec(trial, lead, name, &[&[FLUX], words].concat())
}

/// An instance with `size` brokers that are all up, and the name of its lead.
async fn instance(trial: &Trial, name: &str, size: u32, flux: &str) -> Result<String> {
    let spec = format!(
        "{{size: {size}, interactive: true, flux: {flux}, containers: [{{image: 'ubuntu:24.04'}}]}}"
    );
    apply(trial, name, &spec).await?;
    let lead = ready_lead(trial, name).await?;
    await_up(trial, name, &size.to_string(), DEADLINE).await?;
    Ok(lead)
}

/// Submits a job that has a task on each of `nodes`, and waits until it runs.
async fn job(trial: &Trial, lead: &str, name: &str, nodes: &str, task: &str) -> Result<String> {
    let words = ["submit", "-N", nodes, "-n", nodes, "sh", "-c", task];
    let id = flux(trial, lead, name, &words)?.trim().to_owned();
    until("the job to run", async || {
        let states = flux(trial, lead, name, &["jobs", "-a", "-no", "{status}"])?;
        Ok((states.trim() == "RUN").then_some(()))
    })
    .await?;
    Ok(id)
}

/// Ranks that are drained, each with its reason.
fn drained(trial: &Trial, lead: &str, name: &str) -> Result<String> {
    flux(trial, lead, name, &["resource", "drain", "-no", "{ranks} {reason}"])
}

#[test]
#[ignore = "needs a cluster"]
fn a_rank_leaves_when_its_jobs_have_ended_and_is_used_again_when_it_is_back() {
    trial("leaving", &[], async |trial| {
        let lead = instance(trial, "leaving", 3, "{drainSeconds: 300}").await?;
        let task = "until test -e /tmp/go; do sleep 0.1; done";
        job(trial, &lead, "leaving", "3", task).await?;
        let pod = trial.pod("leaving", 2).await?.context("no worker")?;
        trial.edit("leaving", &json!({ "size": 2 })).await?;
        until("the drain", async || {
            Ok(drained(trial, &lead, "leaving")?.starts_with("2 ").then_some(()))
        })
        .await?;
        let said = drained(trial, &lead, "leaving")?;
        ensure!(said == "2 flux-agent: its pod is stopping\n", "{said}");
        let log = container_log(trial, &pod, "leaving").await?;
        ensure!(!log.contains("ending the broker"), "it does not wait:\n{log}");
        for index in 0..3 {
            let pod = trial.pod("leaving", index).await?.context("no pod")?.name_any();
            exec(trial, &pod, "leaving", &["touch", "/tmp/go"])?;
        }
        let (pod, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
        let gone = await_condition(trial.api::<Pod>(), &pod, is_deleted(&uid));
        tokio::time::timeout(DEADLINE, gone).await.context("waiting for the pod to go")??;
        let result = flux(trial, &lead, "leaving", &["jobs", "-a", "-no", "{status}"])?;
        ensure!(result.trim() == "COMPLETED", "the job is {result}");
        let said = drained(trial, &lead, "leaving")?;
        ensure!(said.starts_with("2 "), "a rank without a pod stays drained: {said}");
        trial.edit("leaving", &json!({ "size": 3 })).await?;
        await_up(trial, "leaving", "3", DEADLINE).await?;
        let said = drained(trial, &lead, "leaving")?;
        ensure!(said.is_empty(), "still drained: {said}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn jobs_that_do_not_end_in_time_are_named_in_an_event() {
    trial("unfinished", &[], async |trial| {
        let lead = instance(trial, "unfinished", 2, "{drainSeconds: 5}").await?;
        let id = job(trial, &lead, "unfinished", "2", "sleep 600").await?;
        let pod = trial.pod("unfinished", 1).await?.context("no worker")?;
        let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        ensure!(grace == Some(5), "the pod has {grace:?} seconds to end");
        trial.edit("unfinished", &json!({ "size": 1 })).await?;
        let told = event(trial, "unfinished", "JobsUnfinished").await?;
        let base58 = id.trim_start_matches(['ƒ', 'f']);
        ensure!(told.contains(&pod.name_any()) && told.contains(base58), "{told}, not {id}");
        Ok(())
    });
}
