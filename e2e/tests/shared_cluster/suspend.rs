//! MiniClusters that are suspended and resumed.

use crate::prelude::*;
use crate::replace::{Loss, lose};

/// Waits until the MiniCluster is suspended for this reason, with no pod that has not ended.
pub(crate) async fn suspended(trial: &Trial, run: &Instance<'_>, reason: &str) -> Result<()> {
    let cluster = run.state(State::Suspended).await?;
    let found = condition(&cluster, "Suspended").context("no condition")?;
    ensure!(found.status == "True" && found.reason == reason, "{found:?}");
    let code = cluster.status.as_ref().and_then(|status| status.exit_code);
    ensure!(code.is_none(), "a suspension is no end, with {code:?}");
    let phases = trial.pods(run.name).await?.into_iter().filter_map(|pod| pod.status?.phase);
    let ended = |phase: &String| ["Failed", "Succeeded"].contains(&phase.as_str());
    let left: Vec<String> = phases.filter(|phase| !ended(phase)).collect();
    ensure!(left.is_empty(), "pods are left: {left:?}");
    Ok(())
}

/// The archive has the command, which was submitted before, so that the next lead does not submit it again.
#[test]
#[ignore = "needs a cluster"]
fn an_archived_instance_goes_on_with_another_size() {
    trial("pause", async |trial| {
        // A directory of the node outlives the pods.
        let directory = format!("/var/tmp/{}", trial.namespace());
        let fields = "size: 2, interactive: true, archive: {path: /state/pause.tgz}";
        let container = format!(
            "command: id, commands: {{runFluxAsRoot: true}}, \
             volumes: {{state: {{path: /state, hostPath: {directory}}}}}"
        );
        let run = trial.run("pause", fields, &container).await?;
        let lead = run.ready_with(2).await?;
        until_true("the command to end", async || Ok(run.jobs().await? == "COMPLETED")).await?;
        run.flux(&["run", "-N2", "hostname"]).await?;
        run.flux(&["submit", "-N2", "sleep", "600"]).await?;
        run.flux(&["submit", "-N2", "hostname"]).await?;

        run.edit(&json!({ "suspend": true }))?;
        suspended(trial, &run, "SuspendedBySpecification").await?;
        run.kubectl(&["get", "configmap/pause-agent"]).context("it stays")?;
        let service = ["get", "service/pause-lead", "--ignore-not-found"];
        let is_free = async || Ok(run.kubectl(&service)?.is_empty());
        until_true("its address to be free", is_free).await?;

        run.edit(&json!({ "suspend": false, "size": 3, "maxSize": 3 }))?;
        ensure!(run.ready().await? != lead, "the lead is the same");
        run.up(3).await?;
        run.flux(&["queue", "idle"]).await?;
        let jobs = run.flux(&["jobs", "-a", "-no", "{name} {status}"]).await?;
        let expected =
            ["hostname COMPLETED", "hostname COMPLETED", "id COMPLETED", "sleep CANCELED"];
        ensure!(sorted(&jobs) == expected, "{jobs}");
        run.exec(0, &["rm", "/state/pause.tgz"]).await.map(drop)
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_suspended_command_runs_again_until_its_lead_is_lost() {
    trial("again", async |trial| {
        let run = trial.run("again", "size: 2", "command: sleep 600").await?;
        run.ready().await?;
        run.edit(&json!({ "suspend": true }))?;
        suspended(trial, &run, "SuspendedBySpecification").await?;
        run.edit(&json!({ "suspend": false }))?;
        run.ready().await?;

        // The user who has suspended the Job resumes it.
        let suspend =
            |suspend: bool| run.patch("job/again", &json!({ "spec": { "suspend": suspend } }));
        suspend(true)?;
        suspended(trial, &run, "JobSuspended").await?;
        suspend(false)?;
        run.ready().await?;

        lose(trial, &run, 0, Loss::Eviction).await?;
        run.fails("LeadLost").await?;
        Ok(())
    });
}
