//! `kubectl flux` from outside the pods: it makes MiniClusters, follows them, shows their status, and ends them.

use crate::prelude::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::{Child, Command, Stdio};

const IMAGE: &str = "ubuntu:24.04";

/// The MiniClusters of the trial, in the output of `list`.
fn listed(trial: &Trial) -> Result<Vec<String>> {
    Ok(trial.plugin_prints(&["list", "-o", "name"])?.lines().map(str::to_owned).collect())
}

#[test]
#[ignore = "needs a cluster"]
fn a_run_has_the_commands_output_and_exit_code() {
    trial("plugin-run", async |trial| {
        let words = ["run", IMAGE, "--size=4", "--name=names", "--", "hostname"];
        let printed = trial.plugin_ends(0, &words)?;
        let names = ["names-0", "names-1", "names-2", "names-3"];
        ensure!(sorted(&printed.out) == names, "{printed:?}");
        let words = ["run", IMAGE, "--name=seven", "--keep", "--", "sh", "-c", "exit 7"];
        let failed = trial.plugin_ends(7, &words)?;
        ensure!(failed.err.contains("code 7"), "the code is not printed: {failed:?}");
        let words = ["run", IMAGE, "--name=loud", "--broker", "--", "echo", "heard"];
        let loud = trial.plugin_ends(0, &words)?;
        let parts = ["flux-agent: ", "broker.info[0]: ", "heard\n"];
        ensure!(parts.iter().all(|part| loud.out.contains(part)), "{loud:?}");
        trial.plugin_ends(2, &["run", IMAGE, "--size=0", "--", "true"])?;
        let is_left = async || Ok(listed(trial)? == ["minicluster.flux-framework.org/seven"]);
        until_true("only what was to be kept", is_left).await
    });
}

/// Starts a run in the background, and waits for its MiniCluster.
async fn background(trial: &Trial, name: &str) -> Result<Child> {
    let words = ["run", IMAGE, "--name", name, "--size=2", "--", "sleep", "600"];
    let mut plugin: Command = trial.plugin(&words)?;
    let child = plugin.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.context("starting kubectl flux")?;
    trial.named(name).running(2).await?;
    Ok(child)
}

#[test]
#[ignore = "needs a cluster"]
fn an_interrupt_deletes_and_a_killed_run_is_listed() {
    trial("plugin-stop", async |trial| {
        let mut interrupted = background(trial, "interrupted").await?;
        kill(Pid::from_raw(interrupted.id().cast_signed()), Signal::SIGINT)?;
        let status = wait_for("kubectl flux to end", async || Ok(interrupted.try_wait()?)).await?;
        ensure!(status.code() == Some(130), "{status:?}");
        ensure!(listed(trial)?.is_empty(), "{:?}", listed(trial)?);
        let mut killed = background(trial, "killed").await?;
        killed.kill().context("killing kubectl flux")?;
        killed.wait().context("waiting for kubectl flux")?;
        ensure!(
            listed(trial)? == ["minicluster.flux-framework.org/killed"],
            "{:?}",
            listed(trial)?
        );
        trial.plugin_prints(&["delete", "killed"])?;
        ensure!(listed(trial)?.is_empty(), "{:?}", listed(trial)?);
        let again = trial.plugin_ends(1, &["delete", "killed"])?;
        ensure!(again.err.contains("there is no MiniCluster killed"), "{again:?}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn an_instance_is_followed_scaled_suspended_and_resumed() {
    trial("plugin-life", async |trial| {
        let spec = specification(
            &["size: 2", "maxSize: 3", "interactive: true"],
            "command: 'echo from the job'",
        );
        let run = trial.start("life", &spec).await?;
        trial.plugin_prints(&["wait", "life", "--for=ready", "--timeout=180"])?;
        run.running(2).await?;
        let status = trial.plugin_prints(&["status", "life"])?;
        ensure!(status.contains("Running") && status.matches("online").count() >= 3, "{status}");
        ensure!(trial.plugin_json(&["status", "life"])?["status"]["state"] == "Running");
        wait_for("the id of the submitted job, of rank 0", async || {
            let logs = trial.plugin_prints(&["logs", "life"])?;
            ensure!(!logs.contains("broker.info"), "lines of Flux: {logs}");
            Ok(logs.lines().any(|line| line.starts_with("  0 | ƒ")).then_some(()))
        })
        .await?;
        let all = trial.plugin_prints(&["logs", "life", "--broker", "--rank=1", "--timestamps"])?;
        ensure!(all.contains("broker.info[1]") && !all.contains("  0 |"), "{all}");
        trial.plugin_prints(&["scale", "life", "--size=3"])?;
        run.running(3).await?;
        trial.plugin_ends(1, &["scale", "life", "--size=9"])?;
        trial.plugin_prints(&["suspend", "life"])?;
        trial.plugin_prints(&["wait", "life", "--for=suspended", "--timeout=180"])?;
        let why = trial.plugin_json(&["explain", "life"])?;
        ensure!(why["reason"] == "SuspendedBySpecification", "{why}");
        trial.plugin_prints(&["resume", "life"])?;
        run.state(State::Running).await?;
        let listed = trial.plugin_prints(&["list", "-o", "wide"])?;
        ensure!(listed.contains("life") && listed.contains(IMAGE), "{listed}");
        trial.api::<MiniCluster>().get("life").await?;
        trial.plugin_prints(&["delete", "--all"]).map(drop)
    });
}
