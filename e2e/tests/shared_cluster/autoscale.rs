//! MiniClusters that have as many pods as their jobs need.

use crate::prelude::*;
use crate::suspend::suspended;
use std::time::Instant;

/// Also prints how long it took from the submission to the pod.
#[test]
#[ignore = "needs a cluster"]
fn pods_come_for_pending_jobs_and_go_after_them() {
    trial("growth", async |trial| {
        // With so little time to wait, the removal of a pod would end a job that runs there.
        let fields = "size: 1, interactive: true, autoscale: {maxSize: 3, idleSeconds: 2}, \
                      flux: {drainSeconds: 2}";
        let run = trial.run("growth", fields, "").await?;
        let lead = run.ready().await?;
        run.await_condition("Autoscaling", "DemandKnown").await?;
        let refused = run.kubectl(&["scale", "minicluster", run.name, "--replicas=2"]);
        let refused = format!("{:#}", refused.err().context("the size was taken")?);
        ensure!(refused.contains("its queue decides"), "{refused}");

        let began = Instant::now();
        let task = "until test -e /tmp/go; do sleep 0.1; done";
        run.flux(&["submit", "-N3", "-n3", "sh", "-c", task]).await?;
        let submitted = began.elapsed();
        wait_for("its pods", async || trial.pod(run.name, 2).await).await?;
        println!(
            "the submission took {submitted:?}, the pod was there after {:?}",
            began.elapsed()
        );
        until_true("the job", async || Ok(run.jobs().await? == "RUN")).await?;
        run.running(3).await?;
        run.await_condition("Autoscaling", "jobs need 3 pods; the size is set to 3 (from 1 to 3)")
            .await?;
        run.go_all(3).await?;

        run.running(1).await?;
        ensure!(run.ready().await? == lead, "the lead is another");
        ensure!(run.jobs().await? == "COMPLETED", "the job is {}", run.jobs().await?);
        // The MiniCluster grows once more: the ranks of the removed pods must not stay drained.
        let hosts = run.flux(&["run", "-N2", "-n2", "hostname"]).await?;
        ensure!(hosts.contains("growth-1"), "{hosts}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn an_idle_instance_has_no_pods_until_a_submission() {
    trial("rest", async |trial| {
        // A directory of the node outlives the pods.
        let directory = format!("/var/tmp/{}", trial.namespace());
        let fields = "size: 1, interactive: true, archive: {path: /state/rest.tgz}, \
                      autoscale: {minSize: 0, maxSize: 2, idleSeconds: 600}";
        let container = format!(
            "commands: {{runFluxAsRoot: true}}, \
             volumes: {{state: {{path: /state, hostPath: {directory}}}}}"
        );
        let run = trial.run("rest", fields, &container).await?;
        let lead = run.ready().await?;
        run.flux(&["run", "hostname"]).await?;
        run.edit(&json!({ "autoscale": { "idleSeconds": 2 } }))?;
        suspended(trial, &run, "Idle").await?;
        // Another change does not start it.
        run.edit(&json!({ "autoscale": { "idleSeconds": 600 } }))?;
        suspended(trial, &run, "Idle").await?;

        let began = Instant::now();
        let printed =
            trial.plugin_prints(&["submit", "rest", "-N2", "--watch", "--", "hostname"])?;
        println!("from the submission to the end of the job: {:?}", began.elapsed());
        ensure!(sorted(&printed) == ["rest-0", "rest-1"], "{printed}");
        ensure!(run.ready().await? != lead, "the lead is the same");
        let jobs = run.flux(&["jobs", "-a", "-no", "{name} {status}"]).await?;
        ensure!(jobs.trim() == "hostname COMPLETED\nhostname COMPLETED", "{jobs}");
        run.exec(0, &["rm", "/state/rest.tgz"]).await.map(drop)
    });
}
