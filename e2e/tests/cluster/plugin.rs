//! `kubectl flux` from outside the pods: it makes MiniClusters, follows them, says how they stand, and ends them.

use crate::{Trial, look, specification, trial};
use anyhow::{Context as _, Result, ensure};
use e2e::programs;
use flux_operator::crd::{MiniCluster, State};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::process::{Child, Command, Output, Stdio};

const IMAGE: &str = "ubuntu:24.04";

/// Runs the plugin to its end, however that is.
fn ended(trial: &Trial, words: &[&str]) -> Result<Output> {
    trial.plugin(words)?.stdin(Stdio::null()).output().context("starting kubectl flux")
}

/// What the plugin prints, which ends well.
fn said(trial: &Trial, words: &[&str]) -> Result<String> {
    let output = programs::run(&mut trial.plugin(words)?)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn json(trial: &Trial, words: &[&str]) -> Result<Value> {
    let text = said(trial, &[words, &["--output", "json"]].concat())?;
    serde_json::from_str(&text).with_context(|| format!("reading {text}"))
}

/// The MiniClusters of the trial, as `list` has them.
fn listed(trial: &Trial) -> Result<Vec<String>> {
    Ok(said(trial, &["list", "-o", "name"])?.lines().map(str::to_owned).collect())
}

#[test]
#[ignore = "needs a cluster"]
fn a_run_prints_what_the_command_prints_and_ends_with_its_code() {
    trial("plugin-run", async |trial| {
        let output = ended(trial, &["run", IMAGE, "--size=4", "--name=names", "--", "hostname"])?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut names: Vec<&str> = text.lines().collect();
        names.sort_unstable();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(names == ["names-0", "names-1", "names-2", "names-3"], "{text}{errors}");
        ensure!(output.status.code() == Some(0), "{:?}: {errors}", output.status);
        let failed =
            ended(trial, &["run", IMAGE, "--name=seven", "--keep", "--", "sh", "-c", "exit 7"])?;
        let errors = String::from_utf8_lossy(&failed.stderr).into_owned();
        ensure!(failed.status.code() == Some(7), "{:?}: {errors}", failed.status);
        ensure!(errors.contains("code 7"), "it does not say so: {errors}");
        let impossible = ended(trial, &["run", IMAGE, "--size=0", "--", "true"])?;
        ensure!(impossible.status.code() == Some(125), "{impossible:?}");
        look("only what was to be kept", async || {
            Ok((listed(trial)? == ["minicluster/seven"]).then_some(()))
        })
        .await
    });
}

/// A run in the background whose MiniCluster is there.
async fn background(trial: &Trial, name: &str) -> Result<Child> {
    let words = ["run", IMAGE, "--name", name, "--size=2", "--", "sleep", "600"];
    let mut plugin: Command = trial.plugin(&words)?;
    let child = plugin.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.context("starting kubectl flux")?;
    trial.named(name).running(2).await?;
    Ok(child)
}

fn signal(child: &Child, signal: Signal) -> Result<()> {
    let pid = i32::try_from(child.id()).context("the pid of kubectl flux")?;
    kill(Pid::from_raw(pid), signal).with_context(|| format!("sending {signal}"))
}

#[test]
#[ignore = "needs a cluster"]
fn an_interrupt_ends_the_run_and_what_a_killed_one_leaves_is_listed_and_can_be_deleted() {
    trial("plugin-stop", async |trial| {
        let mut interrupted = background(trial, "interrupted").await?;
        signal(&interrupted, Signal::SIGINT)?;
        let status = look("kubectl flux to end", async || Ok(interrupted.try_wait()?)).await?;
        ensure!(status.code() == Some(130), "{status:?}");
        ensure!(listed(trial)?.is_empty(), "{:?}", listed(trial)?);
        let mut killed = background(trial, "killed").await?;
        killed.kill().context("killing kubectl flux")?;
        killed.wait().context("waiting for kubectl flux")?;
        ensure!(listed(trial)? == ["minicluster/killed"], "{:?}", listed(trial)?);
        said(trial, &["delete", "killed"])?;
        ensure!(listed(trial)?.is_empty(), "{:?}", listed(trial)?);
        let again = ended(trial, &["delete", "killed"])?;
        let errors = String::from_utf8_lossy(&again.stderr).into_owned();
        ensure!(
            again.status.code() == Some(1) && errors.contains("there is no MiniCluster killed"),
            "{errors}"
        );
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
        said(trial, &["wait", "life", "--for=ready", "--timeout=180"])?;
        run.running(2).await?;
        let status = said(trial, &["status", "life"])?;
        ensure!(status.contains("Running") && status.matches("online").count() >= 3, "{status}");
        ensure!(json(trial, &["status", "life"])?["status"]["state"] == "Running");
        look("the id of the submitted job, of rank 0", async || {
            let logs = said(trial, &["logs", "life"])?;
            ensure!(!logs.contains("broker.info"), "lines of Flux: {logs}");
            Ok(logs.lines().any(|line| line.starts_with("  0 | ƒ")).then_some(()))
        })
        .await?;
        let all = said(trial, &["logs", "life", "--broker", "--rank=1", "--timestamps"])?;
        ensure!(all.contains("broker.info[1]") && !all.contains("  0 |"), "{all}");
        said(trial, &["scale", "life", "--size=3"])?;
        run.running(3).await?;
        let refused = ended(trial, &["scale", "life", "--size=9"])?;
        ensure!(refused.status.code() == Some(1), "{refused:?}");
        said(trial, &["suspend", "life"])?;
        said(trial, &["wait", "life", "--for=suspended", "--timeout=180"])?;
        let why = json(trial, &["explain", "life"])?;
        ensure!(why["reason"] == "SuspendedBySpecification", "{why}");
        said(trial, &["resume", "life"])?;
        run.state(State::Running).await?;
        let listed = said(trial, &["list", "-o", "wide"])?;
        ensure!(listed.contains("life") && listed.contains(IMAGE), "{listed}");
        trial.api::<MiniCluster>().get("life").await?;
        said(trial, &["delete", "--all"]).map(drop)
    });
}
