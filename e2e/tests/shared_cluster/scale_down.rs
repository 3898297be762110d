//! Workers that leave an instance that goes on, and the jobs on their ranks.

use crate::prelude::*;

/// Sets the autoscaler's bounds to so many pods. With equal bounds it needs no metric.
fn scale(run: &Instance<'_>, size: u32) -> Result<()> {
    let bounds = json!({ "spec": { "minReplicas": size, "maxReplicas": size } });
    run.patch(&format!("hpa/{}", run.name), &bounds)
}

/// A real `HorizontalPodAutoscaler` sets the size, and knows nothing of jobs.
#[test]
#[ignore = "needs a cluster"]
fn a_rank_leaves_after_its_jobs_and_is_used_again() {
    trial("leaving", async |trial| {
        let fields = "size: 1, maxSize: 3, interactive: true, flux: {drainSeconds: 300}";
        let run = trial.run("leaving", fields, "").await?;
        run.ready_with(1).await?;
        run.kubectl(&["autoscale", "minicluster", run.name, "--min=3", "--max=3"])?;
        let cluster = run.brokers(3).await?;
        // Autoscalers find the pods that they measure by this selector.
        let selector = cluster.status.map(|status| status.selector).unwrap_or_default();
        let selected = run.kubectl(&["get", "pods", "-oname", "--selector", &selector])?;
        ensure!(selected.lines().count() == 3, "{selector:?} selects {selected}");
        run.up(3).await?;
        run.job("3", "until test -e /tmp/go; do sleep 0.1; done").await?;
        let worker = run.pod(2).await?;
        scale(&run, 2)?;
        until_true("the drain", async || Ok(!run.drained().await?.is_empty())).await?;
        let drained = run.drained().await?;
        ensure!(drained == "2 flux-agent: its pod is stopping", "{drained}");
        let log = run.log(2).await?;
        ensure!(!log.contains("ending the broker"), "it does not wait:\n{log}");
        run.go_all(3).await?;
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
        let fields = "size: 2, interactive: true, flux: {drainSeconds: 5}";
        let run = trial.run("unfinished", fields, "").await?;
        run.ready_with(2).await?;
        run.job("2", "sleep 600").await?;
        let pod = run.pod(1).await?;
        let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        ensure!(grace == Some(5), "the pod has {grace:?} seconds to end");
        run.edit(&json!({ "size": 1 }))?;
        until_true("its end", async || Ok(run.jobs().await? == "FAILED")).await
    });
}
