//! A command runs once, whoever deletes its Job.

use crate::trial;
use anyhow::ensure;
use k8s_openapi::api::batch::v1::Job;

#[test]
#[ignore = "needs a cluster"]
fn a_job_that_is_deleted_while_it_runs_is_not_run_again() {
    trial("deleted-job", async |trial| {
        let run = trial.run("gone", "size: 2", "command: 'echo once; sleep 600'").await?;
        run.ready().await?;
        run.kubectl(&["delete", "job", "gone", "--timeout=2m"])?;
        let (code, message) = run.fails("EndNotSeen").await?;
        ensure!(code.is_none() && message.contains("Delete and create"), "{code:?}: {message}");
        ensure!(trial.api::<Job>().get_opt("gone").await?.is_none(), "there is another Job");
        Ok(())
    });
}
