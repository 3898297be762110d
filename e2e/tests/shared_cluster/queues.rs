//! Queues with names, in a file that a hook adds to the broker's configuration.

use crate::prelude::*;

const HOOK: &str = r#"commands: {brokerPre: 'printf "[queues.a]\n[queues.b]\n[policy.jobspec.defaults.system]\nqueue = \"b\"\n" > /mnt/flux/config/etc/flux/config/site.toml'}"#;

#[test]
#[ignore = "needs a cluster"]
fn named_queues_are_started_and_one_is_the_default() {
    with_real_flux("queues", "queues", "the stand-in for Flux has none", async |trial| {
        let run = trial.run("queues", "size: 2, interactive: true", HOOK).await?;
        run.ready().await?;
        wait_for("both queues to be started", async || {
            let status = run.flux(&["queue", "status"]).await?;
            Ok((status.matches("Scheduling is started").count() == 2).then_some(()))
        })
        .await?;
        run.flux(&["run", "-q", "a", "hostname"]).await?;
        run.flux(&["run", "-N2", "hostname"]).await?;
        let queues = run.flux(&["jobs", "-a", "-no", "{queue}"]).await?;
        ensure!(queues == "b\na", "{queues}");
        Ok(())
    });
}
