//! The result in the status of an ended run, for people and for workflow engines.

use crate::prelude::*;
use flux_api::crd::RunResult;

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
        let command = "if test $FLUX_TASK_RANK = 2; then echo broken >&2; exit 3; fi; sleep 2";
        let container = format!("command: '{command}'");
        let fails = trial.run("fails", "size: 4, tasks: 4", &container).await?;
        let (status, result) = ended(&fails).await?;
        ensure!((result.exit_code, result.signal, result.rank) == (3, None, Some(2)), "{result:?}");
        let host = result.host.as_deref();
        ensure!(host.is_some_and(|host| host.starts_with("fails-")), "{result:?}");
        ensure!(result.container.as_deref() == Some("fails"), "{result:?}");
        ensure!(result.output.as_deref() == Some("broken\n"), "{result:?}");
        ensure!(result.jobid.as_deref() == Some(&status.jobid), "{status:?}");
        ensure!(status.jobid.starts_with('ƒ'), "{status:?}");
        let message = fails.fails("CommandFailed").await?.1;
        ensure!(message.contains("exited with code 3 (rank 2 on fails-"), "{message}");

        let well = trial.run("well", "size: 1", "command: 'echo fine >&2'").await?;
        let (status, result) = ended(&well).await?;
        let jobid = Some(status.jobid.clone()).filter(|id| id.starts_with('ƒ'));
        ensure!(jobid.is_some(), "{status:?}");
        ensure!(result == RunResult { jobid, ..RunResult::default() }, "{result:?}");
        Ok(())
    });
}
