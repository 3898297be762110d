//! Workers that leave an instance that goes on, and the jobs on their ranks.

use crate::{Instance, Trial, look, trial};
use anyhow::{Result, ensure};
use kube::ResourceExt as _;
use serde_json::json;

/// An instance with `size` brokers that are all up.
async fn instance<'run>(
    trial: &'run Trial,
    name: &'run str,
    size: u32,
    fields: &str,
) -> Result<Instance<'run>> {
    let run = trial.run(name, &format!("size: {size}, interactive: true, {fields}"), "").await?;
    run.ready_with(size).await?;
    Ok(run)
}

/// Lets the autoscaler give the MiniCluster so many pods. It needs no metric where its bounds leave no choice.
fn scale(run: &Instance<'_>, size: u32) -> Result<()> {
    let bounds = json!({ "spec": { "minReplicas": size, "maxReplicas": size } });
    run.patch(&format!("hpa/{}", run.name), &bounds)
}

/// A real `HorizontalPodAutoscaler` sets the size, and knows nothing of jobs.
#[test]
#[ignore = "needs a cluster"]
fn a_rank_leaves_when_its_jobs_have_ended_and_is_used_again_when_it_is_back() {
    trial("leaving", async |trial| {
        let run = instance(trial, "leaving", 1, "maxSize: 3, flux: {drainSeconds: 300}").await?;
        run.kubectl(&["autoscale", "minicluster", run.name, "--min=3", "--max=3"])?;
        let cluster = run.brokers(3).await?;
        // By this autoscalers find what they measure.
        let selector = cluster.status.map(|status| status.selector).unwrap_or_default();
        let selected = run.kubectl(&["get", "pods", "-oname", "--selector", &selector])?;
        ensure!(selected.lines().count() == 3, "{selector:?} selects {selected}");
        run.up(3).await?;
        run.job("3", "until test -e /tmp/go; do sleep 0.1; done").await?;
        let worker = run.pod(2).await?;
        scale(&run, 2)?;
        look("the drain", async || Ok((!run.drained().await?.is_empty()).then_some(()))).await?;
        let drained = run.drained().await?;
        ensure!(drained == "2 flux-agent: its pod is stopping", "{drained}");
        let log = run.log(2).await?;
        ensure!(!log.contains("ending the broker"), "it does not wait:\n{log}");
        for index in 0..3 {
            run.go(index).await?;
        }
        run.kubectl(&["wait", "pod", &worker.name_any(), "--for=delete", "--timeout=3m"])?;
        ensure!(run.jobs().await? == "COMPLETED", "the job is {}", run.jobs().await?);
        let drained = run.drained().await?;
        ensure!(drained.starts_with("2 "), "a rank without a pod stays drained: {drained}");
        scale(&run, 3)?;
        run.up(3).await?;
        let drained = run.drained().await?;
        ensure!(drained.is_empty(), "still drained: {drained}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn jobs_that_do_not_end_in_time_fail() {
    trial("unfinished", async |trial| {
        let run = instance(trial, "unfinished", 2, "flux: {drainSeconds: 5}").await?;
        run.job("2", "sleep 600").await?;
        let pod = run.pod(1).await?;
        let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        ensure!(grace == Some(5), "the pod has {grace:?} seconds to end");
        run.edit(&json!({ "size": 1 }))?;
        look("its end", async || Ok((run.jobs().await? == "FAILED").then_some(()))).await
    });
}
