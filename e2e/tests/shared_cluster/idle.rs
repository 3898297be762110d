//! `spec.idleDeadlineSeconds`: an interactive instance that nobody uses ends.

use crate::trial;
use anyhow::ensure;
use flux_api::crd::State;

#[test]
#[ignore = "needs a cluster"]
fn an_unused_instance_ends_but_not_during_a_session() {
    trial("idle", async |trial| {
        let run =
            trial.run("idle", "size: 1, interactive: true, idleDeadlineSeconds: 3", "").await?;
        run.running(1).await?;
        // The session lasts longer than the limit.
        let session = ["exec", "idle", "--", "sh", "-c", "sleep 6; echo still here"];
        let printed = trial.plugin_prints(&session)?;
        ensure!(printed.contains("still here"), "{printed}");
        run.state(State::Complete).await?;
        let log = run.log(0).await?;
        ensure!(log.contains("it had no job and no session for 3 s"), "{log}");
        Ok(())
    });
}
