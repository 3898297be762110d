//! The result in the status of an ended run, for people and for workflow engines.

use crate::prelude::*;
use flux_api::crd::{JobNumbers, RunResult};
use k8s_openapi::api::batch::v1::Job;

async fn ended(run: &Instance<'_>) -> Result<(MiniClusterStatus, RunResult)> {
    let status = run.finished().await?.status.context("no status")?;
    let result = status.result.clone().context("no result")?;
    Ok((status, result))
}

#[test]
#[ignore = "needs a cluster"]
fn the_result_names_the_failed_task_and_its_output() {
    trial("result", async |trial| {
        // The other tasks end later, because Flux records only the first end.
        let command = "if test $FLUX_TASK_RANK = 2; then echo broken >&2; exit 2; fi; sleep 2";
        let container = format!("command: '{command}'");
        let fails = trial.run("fails", "size: 4, tasks: 4", &container).await?;
        let (status, result) = ended(&fails).await?;
        ensure!((result.exit_code, result.signal, result.rank) == (2, None, Some(2)), "{result:?}");
        let host = result.host.as_deref();
        ensure!(host.is_some_and(|host| host.starts_with("fails-")), "{result:?}");
        ensure!(result.container.as_deref() == Some("fails"), "{result:?}");
        ensure!(result.output.as_deref() == Some("broken\n"), "{result:?}");
        ensure!(result.jobid.as_deref() == Some(&status.jobid), "{status:?}");
        ensure!(status.jobid.starts_with('ƒ'), "{status:?}");
        let message = fails.fails("CommandFailed").await?.1;
        ensure!(message.contains("exited with code 2 (rank 2 on fails-"), "{message}");
        // The Job would replace a lead with this code, as of a pod that was stopped before it began.
        let job = trial.api::<Job>();
        wait_for("the Job's end", async || {
            let status = job.get(fails.name).await?.status.unwrap_or_default();
            let mut all = status.conditions.iter().flatten();
            Ok(all.any(|it| it.type_ == "Failed").then_some(()))
        })
        .await?;
        let pods = trial.pods(fails.name).await?;
        let leads = pods.iter().filter(|pod| pod.name_any().starts_with("fails-0-")).count();
        ensure!(leads == 1, "there were {leads} leads");

        let well = trial.run("well", "size: 1", "command: 'echo fine >&2'").await?;
        let (status, result) = ended(&well).await?;
        let jobid = Some(status.jobid.clone()).filter(|id| id.starts_with('ƒ'));
        ensure!(jobid.is_some(), "{status:?}");
        // The stand-in for Flux counts no jobs.
        let jobs = result.jobs.map(|_| JobNumbers { successful: 1, ..JobNumbers::default() });
        ensure!(jobs.is_some() == View::from_environment()?.is_real(), "{result:?}");
        ensure!(result == RunResult { jobid, jobs, ..RunResult::default() }, "{result:?}");
        Ok(())
    });
}

/// The first run fails; the second has another command and number of pods, and keeps nothing of the first.
#[test]
#[ignore = "needs a cluster"]
fn another_run_id_runs_a_finished_minicluster_again() {
    trial("run-id", async |trial| {
        let run = trial.run("again", "size: 1", "command: 'echo one; exit 3'").await?;
        run.fails("CommandFailed").await?;
        let first = trial.api::<Job>().get("again").await?;
        let container = json!({ "image": "ubuntu:24.04", "command": "echo two" });
        run.edit(&json!({ "containers": [container] }))?;
        run.await_condition("Progressing", "NotRunAgain").await?;

        run.edit(&json!({ "runId": "b", "size": 2 }))?;
        let is_done = |it: &MiniClusterStatus| it.run_id.as_deref() == Some("b") && it.is_over();
        let status = run.status("the second run", is_done).await?.status.context("no status")?;
        ensure!(status.state == Some(State::Complete) && status.size == 2, "{status:?}");
        let second = trial.api::<Job>().get("again").await?;
        ensure!(first.metadata.uid != second.metadata.uid, "the Job is the same");
        run.each_once(&["two"]).await?;
        let runs: Vec<_> = status.history.iter().map(|it| (it.exit_code, it.size)).collect();
        ensure!(runs == [(Some(0), 2), (Some(3), 1)], "{:?}", status.history);
        if View::from_environment()?.is_real() {
            let jobs = status.history.iter().map(|run| run.jobs.unwrap_or_default());
            let jobs: Vec<_> = jobs.map(|jobs| (jobs.successful, jobs.failed)).collect();
            ensure!(jobs == [(1, 0), (0, 1)], "{:?}", status.history);
        }
        Ok(())
    });
}

/// Jobs are counted when Flux has canceled what still ran.
#[test]
#[ignore = "needs a cluster"]
fn an_instance_that_is_shut_down_reports_the_numbers_of_its_jobs() {
    let (what, why) = ("numbers of jobs", "the stand-in counts none");
    with_real_flux("numbers", what, why, async |trial| {
        let run = trial.run("numbers", "size: 1, interactive: true", "").await?;
        run.ready().await?;
        run.flux(&["run", "true"]).await?;
        let _ = run.flux(&["run", "false"]).await;
        run.flux(&["submit", "sleep", "600"]).await?;
        run.flux(&["submit", "--urgency=hold", "true"]).await?;
        run.flux(&["shutdown", "--background"]).await?;
        let (_, result) = ended(&run).await?;
        let jobs = result.jobs.context("no numbers of jobs")?;
        let expected = JobNumbers {
            successful: 1,
            failed: 1,
            canceled: 1,
            not_run: 1,
            ..JobNumbers::default()
        };
        ensure!(jobs == expected, "{jobs:?}");
        Ok(())
    });
}
