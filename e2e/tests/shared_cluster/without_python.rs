//! The agent replaces Flux's Python programs: its job must equal that of `flux run`, its modules those of `flux modprobe`.

use crate::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const AGENT: &str = "/mnt/flux/bin/flux-agent";
/// The releases of Flux for which the agent does so.
const RELEASES: [&str; 8] =
    ["0.82.0", "0.83.0", "0.83.1", "0.84.0", "0.85.0", "0.86.0", "0.87.0", "0.88.0"];

/// Runs `flux` with `words`, which submit a job and wait for it, and returns the jobspec that Flux got.
async fn submitted(run: &Instance<'_>, words: &[&[&str]]) -> Result<Value> {
    let printed = run.flux(&words.concat()).await?;
    ensure!(printed.lines().all(|line| line == "a  b"), "{words:?}: {printed}");
    let id = run.flux(&["job", "last"]).await?;
    let jobspec = run.flux(&["job", "info", "--original", &id, "jobspec"]).await?;
    serde_json::from_str(&jobspec).with_context(|| format!("reading {jobspec}"))
}

async fn is_compared(run: &Instance<'_>) -> Result<bool> {
    let version = run.flux(&["version"]).await?;
    Ok(RELEASES.iter().any(|release| version.contains(release)))
}

#[test]
#[ignore = "needs a cluster"]
fn the_agents_modules_and_job_equal_those_of_flux() {
    let why = "the stand-in for Flux makes no jobspec";
    with_real_flux("same-job", "the comparison with flux run", why, async |trial| {
        let run = trial.run("both", "size: 2, interactive: true", "").await?;
        run.ready_with(2).await?;
        let is_compared = is_compared(&run).await?;
        for index in [0, 1] {
            let status = run.agent_status(index).await?;
            let loader = status["modulesLoadedBy"].as_str().unwrap_or_default();
            let expected = if is_compared { "flux-agent" } else { "flux: " };
            ensure!(loader.starts_with(expected), "{index}: {status}");
        }
        // The agent counts cores as Flux does.
        let counted = run.flux(&["R", "encode", "--local", "--hosts=both-[0-1]"]).await?;
        let written = run.exec(0, &["cat", "/mnt/flux/config/etc/flux/system/R"]).await?;
        let [counted, written] = [counted, written].map(|set| -> Result<Value> {
            let mut set: Value = serde_json::from_str(&set)?;
            Ok(set["execution"]["R_lite"].take())
        });
        let (counted, written) = (counted?, written?);
        ensure!(counted == written, "by the agent: {written}, by Flux: {counted}");
        if is_compared {
            let order = async |words: &[&str]| -> Result<BTreeMap<String, BTreeSet<String>>> {
                Ok(serde_json::from_str(&run.flux(words).await?)?)
            };
            let flux = order(&["modprobe", "rc1", "--show-deps"]).await?;
            let own = order(&[AGENT, "rc", "start", "/mnt/flux/view", "--show-deps"]).await?;
            ensure!(own == flux, "by the agent:\n{own:#?}\nby flux modprobe:\n{flux:#?}");
        }
        for counts in [&["-N", "2"][..], &["-N", "2", "-n2"], &["-n1"]] {
            let command = &["echo", "a  b"];
            let flux = submitted(&run, &[&["run"], counts, command]).await?;
            let own = &[AGENT, "submit", "--flux=/mnt/flux/view/bin/flux"];
            let own = submitted(&run, &[own, counts, &["--"], command]).await?;
            ensure!(own == flux, "{counts:?}, by the agent:\n{own:#}\nby flux run:\n{flux:#}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_scheduler_that_does_not_start_ends_the_run() {
    let why = "the stand-in for Flux schedules without Python";
    with_real_flux("no-scheduler", "a scheduler that does not start", why, async |trial| {
        let fields = "size: 1, interactive: true, flux: {scheduler: {simple: true}}";
        // In Flux 0.88 this is a Python program.
        let run = trial.run("broken", fields, "environment: {PYTHONHOME: /nowhere}").await?;
        let (code, message) = run.fails("BrokerFailed").await?;
        ensure!(code == Some(76) && message.contains("the scheduler did not start"), "{message}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn the_agent_submits_plain_commands_itself() {
    trial("submitter", async |trial| {
        let command = "command: 'until test -e /tmp/go; do sleep 0.2; done; exit 3'";
        for (name, fields, has_options) in
            [("own", "size: 1", false), ("options", "size: 1, flux: {optionFlags: --quiet}", true)]
        {
            let run = trial.run(name, fields, command).await?;
            run.ready().await?;
            let plan = run.exec(0, &[AGENT, "plan", "--output", "json"]).await?;
            let plan: Value = serde_json::from_str(&plan)?;
            let submitter = &plan["broker"]["lead_command"]["submitter"];
            let own = !has_options && is_compared(&run).await?;
            ensure!((*submitter == "agent") == own, "{name}: {submitter}");
            run.go(0).await?;
            let (code, message) = run.fails("CommandFailed").await?;
            ensure!(code == Some(3), "{name}: {code:?}: {message}");
        }
        Ok(())
    });
}
