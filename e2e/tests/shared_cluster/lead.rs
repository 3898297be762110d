//! The lead's pod is deleted at the worst moments: before the quorum, and after the command's end.

use crate::prelude::*;
use crate::replace::{Loss, lose};
use crate::suspend::suspended;
use e2e::trial::checkpoint::ARCHIVE;

/// Workers that wait in a hook: without them there is no quorum.
const HELD_UP: &str =
    "commands: {workerPre: 'echo held up; until test -e /tmp/go; do sleep 0.2; done'}";

async fn let_go(run: &Instance<'_>, index: u32) -> Result<()> {
    run.printed(index, "held up").await?;
    run.go(index).await
}

/// Which pods the two workers are.
async fn workers(run: &Instance<'_>) -> Result<[String; 2]> {
    Ok([run.pod(1).await?.name_any(), run.pod(2).await?.name_any()])
}

#[test]
#[ignore = "needs a cluster"]
fn a_lead_lost_before_the_quorum_fails_only_commands() {
    trial("no-quorum", async |trial| {
        let command = format!("command: 'echo once', {HELD_UP}");
        let command = trial.run("command", "size: 2", &command).await?;
        let people = trial.run("people", "size: 3, interactive: true", HELD_UP).await?;
        let_go(&people, 1).await?;
        wait_for("a worker to join, and to wait for the quorum alone", async || {
            // A container that is starting has no agent that answers.
            let status = people.agent_status(1).await.unwrap_or_default();
            Ok((status["brokerState"] == "quorum").then_some(()))
        })
        .await?;
        for run in [&command, &people] {
            run.printed(0, "starting the broker").await?;
        }
        let first = people.pod(0).await?.name_any();
        lose(trial, &command, 0, Loss::Deletion).await?;
        lose(trial, &people, 0, Loss::Deletion).await?;
        let before = workers(&people).await?;
        people.printed(0, "starting the broker").await?;
        let_go(&people, 2).await?;
        ensure!(people.ready().await? != first, "the lead is the same");
        people.up(3).await?;
        ensure!(workers(&people).await? == before, "a worker was replaced");

        let (code, message) = command.fails("LeadLost").await?;
        ensure!(code == Some(77), "{code:?}: {message}");
        ensure!(command.times("once").await? == 0, "it ran");
        Ok(())
    });
}

/// The fields of a container whose memory can be filled, with a directory of the node for the state.
fn with_state(directory: &str) -> String {
    format!(
        "commands: {{runFluxAsRoot: true}}, resources: {{limits: {{memory: 1Gi}}}}, volumes: {{
            memory: {{emptyDir: true, emptyDirMedium: memory}},
            state: {{path: /state, hostPath: {directory}}}}}"
    )
}

#[test]
#[ignore = "needs a cluster"]
fn a_lead_that_is_killed_begins_again_with_its_queue() {
    let what = "a lead that begins again from a checkpoint";
    let why = "the stand-in for Flux dumps nothing while it runs";
    with_real_flux("checkpoint", what, why, async |trial| {
        let directory = format!("/var/tmp/{}", trial.namespace());
        let fields =
            format!("size: 2, interactive: true, archive: {{path: {ARCHIVE}, everySeconds: 10}}");
        let run = trial.run("hard", &fields, &with_state(&directory)).await?;
        let lead = run.ready_with(2).await?;
        let running = run.jobs_in_checkpoint().await?;
        ensure!(run.exec(0, &["ls", "/state"]).await?.trim() == "hard.tgz.checkpoint");

        let before = lose(trial, &run, 0, Loss::Memory).await?;
        run.another(0, &before).await?;
        ensure!(run.ready().await? != lead, "the lead is the same");
        run.goes_on_from_checkpoint(&running).await?;

        // An orderly end leaves the archive alone.
        run.edit(&json!({ "suspend": true }))?;
        suspended(trial, &run, "SuspendedBySpecification").await?;
        run.edit(&json!({ "suspend": false }))?;
        run.ready().await?;
        ensure!(run.flux(&["jobs", "-a", "-no", "{name}"]).await?.lines().count() == 3);
        run.exec(0, &["sh", "-c", "rm /state/hard.tgz*"]).await.map(drop)
    });
}

/// The lead has read that it needs three; its agent reads the new number when the kubelet has updated the file.
#[test]
#[ignore = "needs a cluster"]
fn the_lead_waits_for_the_reduced_size_only() {
    trial("fewer", async |trial| {
        let container =
            format!("launcher: true, command: 'echo once; flux run -N2 hostname', {HELD_UP}");
        let run = trial.run("fewer", "size: 3", &container).await?;
        let lead = run.printed(0, "starting the broker").await?.uid();
        let_go(&run, 1).await?;
        run.printed(1, "starting the broker").await?;
        run.edit(&json!({ "size": 2 }))?;
        let again = run.printed(0, "2 brokers are enough now").await?.uid();
        ensure!(lead == again, "the lead is another one");
        run.complete().await?;
        run.each_once(&["once", "fewer-0", "fewer-1"]).await
    });
}

#[test]
#[ignore = "needs a cluster"]
fn an_ended_command_counts_if_its_hook_is_deleted() {
    trial("post", async |trial| {
        let wait = "until test -e /tmp/go; do sleep 0.2; done; echo done";
        let ended = |code: i32| {
            format!("command: 'echo once; exit {code}', commands: {{post: 'echo after; {wait}'}}")
        };
        let good = trial.run("good", "size: 1", &ended(0)).await?;
        let bad = trial.run("bad", "size: 1", &ended(7)).await?;
        // The test does not let this command continue.
        let stuck = trial.run("stuck", "size: 1, flux: {drainSeconds: 5}", &ended(0)).await?;
        for run in [&good, &bad, &stuck] {
            run.printed(0, "after").await?;
            run.delete_pod(0).await?;
        }
        good.go(0).await?;
        bad.go(0).await?;
        for run in [&good, &stuck] {
            let code = run.complete().await?.status.and_then(|status| status.exit_code);
            ensure!(code == Some(0), "{}: {code:?}", run.name);
        }
        let (code, message) = bad.fails("CommandFailed").await?;
        ensure!(code == Some(7), "{code:?}: {message}");
        for run in [&good, &bad, &stuck] {
            let name = run.name;
            let made =
                run.events(&format!("involvedObject.name={name},reason=SuccessfulCreate"))?;
            ensure!(made.len() == 1, "{name}: {made:?}");
        }
        Ok(())
    });
}
