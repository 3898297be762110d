//! `kubectl flux` while the API server, the kubelet or the node of its run is away.

use super::{FIRST, OUT_OF_SERVICE, SECOND, on_two_nodes, two_nodes};
use crate::prelude::*;
use e2e::kubernetes::{ContainerRuntime, Options};
use flux_contract::Exit;
use std::fs::File;
use std::io::Write as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use tempfile::TempDir;

/// How long a program is away. There is no condition to wait for: what is tested is that nothing happens.
const AWAY: Duration = Duration::from_secs(12);
/// Lines that each run prints; the last ones come when everything is there again.
const LINES: u32 = 40;
/// Runs at the same time. With four outages they are 20.
const RUNS: i32 = 5;
/// The number of the run whose MiniCluster is not deleted.
const KEPT: i32 = 3;

fn nodes() -> Options {
    two_nodes("outages", ContainerRuntime::Newest)
}

#[test]
#[ignore = "needs root"]
fn kubectl_flux_during_outages() {
    on_two_nodes(&nodes(), |environment| {
        case(environment, "outages", commands_follow_runs_over_outages)
    });
}

struct Call {
    what: String,
    child: Child,
    files: TempDir,
}

impl Call {
    fn start(trial: &Trial, what: &str, argv: &[&str]) -> Result<Self> {
        Self::of(what, trial.plugin(argv)?, Stdio::null())
    }

    fn of(what: &str, mut command: Command, input: Stdio) -> Result<Self> {
        let files = TempDir::new()?;
        command.stdin(input);
        command.stdout(File::create(files.path().join("out"))?);
        command.stderr(File::create(files.path().join("err"))?);
        let child = command.spawn().with_context(|| format!("start {what}"))?;
        Ok(Self { what: what.to_owned(), child, files })
    }

    fn output(&self, name: &str) -> Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(self.files.path().join(name))?).into_owned())
    }

    async fn prints(&self, part: &str) -> Result<()> {
        let what = format!("{} to print {part:?}", self.what);
        until_true(&what, async || Ok(self.output("out")?.contains(part))).await
    }

    /// Waits for the end; returns the exit code and the two outputs.
    async fn end(mut self) -> Result<(Option<i32>, String, String)> {
        let what = format!("{} to end", self.what);
        let status: ExitStatus = wait_for(&what, async || Ok(self.child.try_wait()?)).await?;
        Ok((status.code(), self.output("out")?, self.output("err")?))
    }

    /// Waits for the end, which has to be with this code and such an output.
    async fn ends(self, code: i32, fits: impl Fn(&str) -> bool) -> Result<()> {
        let what = self.what.clone();
        let (found, out, err) = self.end().await?;
        ensure!(found == Some(code) && fits(&out), "{what} ended with {found:?}: {out}\n{err}");
        Ok(())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of the command in an output. Flux adds one about a task that has failed.
fn lines_of_command<'line>(output: impl Iterator<Item = &'line str>) -> String {
    let lines: Vec<_> = output.filter(|line| line.starts_with("line ")).collect();
    lines.join("\n") + "\n"
}

fn all_lines() -> String {
    let lines: Vec<String> = (1..=LINES).map(|line| format!("line {line}")).collect();
    lines.join("\n") + "\n"
}

fn script(code: i32) -> String {
    format!(
        "i=1; while test $i -le {LINES}; do echo line $i; i=$((i + 1)); sleep 0.5; done; exit {code}"
    )
}

/// Commands that follow two jobs of the instance `people`, which end with [`KEPT`].
async fn jobs(trial: &Trial) -> Result<[Call; 2]> {
    let script = script(KEPT);
    let job = ["--", "sh", "-c", &script];
    let submit =
        Call::start(trial, "submit", &[&["submit", "people", "--watch"], &job[..]].concat())?;
    let id = trial.plugin_prints(&[&["submit", "people"], &job[..]].concat())?;
    let attach = Call::start(trial, "attach", &["attach", "people", id.trim()])?;
    for call in [&submit, &attach] {
        call.prints("line 3\n").await?;
    }
    Ok([submit, attach])
}

/// Starts runs on the other node than `cordoned`, which end with their numbers.
async fn runs(trial: &Trial, outage: &str, cordoned: &str) -> Result<Vec<Call>> {
    trial.kubectl(&["cordon", cordoned])?;
    let mut runs = Vec::new();
    for code in 0..RUNS {
        let name = format!("{outage}-{code}");
        let script = script(code);
        let option = format!("--name={name}");
        let mut argv = vec!["run", "ubuntu:24.04", &option];
        // Another command waits for the end of this one.
        argv.extend((code == KEPT).then_some("--keep"));
        argv.extend(["--", "sh", "-c", &script]);
        runs.push(Call::start(trial, &name, &argv)?);
    }
    for run in &runs {
        run.prints("line 3\n").await?;
    }
    trial.kubectl(&["uncordon", cordoned])?;
    Ok(runs)
}

/// Each command during three outages has the right code and the whole output; the loss of a node is named.
async fn commands_follow_runs_over_outages(trial: &Trial) -> Result<()> {
    let cluster = trial.own()?;
    trial.kubectl(&["cordon", SECOND])?;
    let people = trial.run("people", "size: 1, interactive: true", "").await?;
    people.running(1).await?;
    trial.kubectl(&["uncordon", SECOND])?;
    let top = trial.plugin_on_terminal(&["top", "people"])?;
    let mut top = Call::of("top", top, Stdio::piped())?;
    for (outage, program) in [("api", "kube-apiserver"), ("kubelet", "kubelet")] {
        let runs = runs(trial, outage, SECOND).await?;
        let beside = beside(trial, &format!("{outage}-{KEPT}")).await?;
        cluster.end_program(program)?;
        tokio::time::sleep(AWAY).await;
        cluster.start_program(&nodes(), program)?;
        whole(runs, beside).await?;
        is_current(trial, &top, outage).await?;
    }
    let halted = runs(trial, "halted", SECOND).await?;
    let beside = beside(trial, &format!("halted-{KEPT}")).await?;
    cluster.halt("kube-apiserver")?;
    tokio::time::sleep(AWAY).await;
    cluster.resume("kube-apiserver")?;
    whole(halted, beside).await?;
    is_current(trial, &top, "halted").await?;
    top.child.stdin.take().context("no keyboard")?.write_all(b"q")?;
    top.ends(0, |_| true).await?;
    lost_node(trial).await
}

/// Waits until the screen of `top` shows a job that is submitted after an `outage`.
async fn is_current(trial: &Trial, top: &Call, outage: &str) -> Result<()> {
    // The terminal gets only cells that change: no other job has one of these letters at the same place.
    let name = outage.to_uppercase().repeat(2);
    let option = format!("--job-name={name}");
    trial.plugin_prints(&["flux", "people", "--", "submit", &option, "sleep", "600"])?;
    top.prints(&name).await?;
    // Its core is for the next jobs.
    trial.plugin_prints(&["flux", "people", "--", "cancel", "--all"])?;
    Ok(())
}

/// Other commands that follow the run of this name.
async fn beside(trial: &Trial, name: &str) -> Result<[Call; 4]> {
    let [submit, attach] = jobs(trial).await?;
    let wait = Call::start(trial, "wait", &["wait", name, "--for=end"])?;
    let logs = Call::start(trial, "logs", &["logs", "--follow", name])?;
    // By then the other call has connected, too.
    logs.prints("line 9").await?;
    Ok([logs, wait, submit, attach])
}

async fn whole(runs: Vec<Call>, [logs, wait, submit, attach]: [Call; 4]) -> Result<()> {
    let jobs = [submit, attach].map(|call| (call, KEPT));
    for (call, code) in runs.into_iter().zip(0..).chain(jobs) {
        call.ends(code, |out| lines_of_command(out.lines()) == all_lines()).await?;
    }
    let lines_of_log = |out: &str| {
        let lines = out.lines().filter_map(|line| line.split_once(" | "));
        lines_of_command(lines.map(|(_, line)| line))
    };
    logs.ends(0, |out| lines_of_log(out) == all_lines()).await?;
    wait.ends(0, |_| true).await
}

/// The node of the runs is lost and given up: the runs name it.
async fn lost_node(trial: &Trial) -> Result<()> {
    let runs = runs(trial, "node", FIRST).await?;
    trial.own()?.lose_node(SECOND)?;
    let unknown = ["wait", "node", SECOND, "--for=condition=Ready=Unknown", "--timeout=2m"];
    trial.kubectl(&unknown)?;
    trial.kubectl(&["taint", "node", SECOND, OUT_OF_SERVICE])?;
    let mut faults = Vec::new();
    for run in runs {
        let what = run.what.clone();
        let (code, out, err) = run.end().await?;
        let has_code = code == Some(i32::from(Exit::LeadLost.code()));
        let begins = all_lines().starts_with(&lines_of_command(out.lines()));
        if !has_code || !begins || !err.contains("LeadLost") {
            faults.push(format!("{what} ended with {code:?}: {out}\n{err}"));
        }
    }
    trial.own()?.start_node(&nodes(), SECOND)?;
    trial.kubectl(&["taint", "node", SECOND, &format!("{OUT_OF_SERVICE}-")])?;
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}
