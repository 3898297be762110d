//! What `kubectl flux` does inside of an instance that runs: its jobs and resources, commands, files, checks.

use crate::{Instance, Trial, look, trial};
use anyhow::{Context as _, Result, ensure};
use e2e::not_run;
use e2e::product::view::View;
use e2e::progress::Progress;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

/// How a command of the plugin ended, and what it printed.
struct Answer {
    code: Option<i32>,
    out: String,
    err: String,
}

fn ask(trial: &Trial, words: &[&str]) -> Result<Answer> {
    let Output { status, stdout, stderr } =
        trial.plugin(words)?.output().with_context(|| format!("running kubectl flux {words:?}"))?;
    let [out, err] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    Ok(Answer { code: status.code(), out, err })
}

/// The same, of a command that ends with `code`.
fn ends(trial: &Trial, code: i32, words: &[&str]) -> Result<Answer> {
    let answer = ask(trial, words)?;
    let Answer { code: found, out, err } = &answer;
    ensure!(*found == Some(code), "kubectl flux {words:?}: {found:?}, not {code}:\n{out}\n{err}");
    Ok(answer)
}

/// What a command prints that ends well.
pub(crate) fn said(trial: &Trial, words: &[&str]) -> Result<String> {
    Ok(ends(trial, 0, words)?.out)
}

fn json(trial: &Trial, words: &[&str]) -> Result<Value> {
    let text = said(trial, &[words, &["-o", "json"]].concat())?;
    serde_json::from_str(&text).with_context(|| format!("reading {text}"))
}

/// An instance with two brokers that are up.
async fn instance<'run>(trial: &'run Trial, name: &'run str, spec: &str) -> Result<Instance<'run>> {
    let run = trial.start(name, spec).await?;
    run.ready().await?;
    run.up(2).await?;
    Ok(run)
}

const SPEC: &str = "{size: 2, interactive: true, containers: [{image: 'ubuntu:24.04', \
    resources: {limits: {cpu: '1', memory: 512Mi}, requests: {cpu: 100m}}}]}";

#[test]
#[ignore = "needs a cluster"]
fn jobs_are_submitted_listed_followed_and_cancelled_and_resources_are_counted() {
    trial("plugin-jobs", async |trial| {
        let run = instance(trial, "hello", SPEC).await?;
        let ranks = json(trial, &["resources", "hello"])?;
        ensure!(ranks[1]["cores"] == 1 && ranks[1]["up"] == true, "{ranks}");
        ensure!(ranks.as_array().is_some_and(|ranks| ranks.len() == 2), "{ranks}");
        let follow = ["submit", "hello", "-N2", "--watch", "--", "sh", "-c", "hostname; exit 3"];
        let watched = ends(trial, 3, &follow)?;
        let mut hosts: Vec<&str> = watched.out.lines().collect();
        hosts.sort_unstable();
        ensure!(hosts == ["hello-0", "hello-1"], "{}\n{}", watched.out, watched.err);
        let wait = "until test -e /tmp/go; do sleep 0.1; done; echo gone; exit 4";
        let id = said(trial, &["submit", "hello", "-n1", "--", "sh", "-c", wait])?;
        let id = id.trim();
        look("the job to run", async || {
            let jobs = json(trial, &["jobs", "hello"])?;
            Ok((jobs[0]["id"] == id && jobs[0]["state"] == "RUN").then_some(()))
        })
        .await?;
        let table = said(trial, &["resources", "hello"])?;
        ensure!(
            table.lines().any(|line| line.starts_with("all") && line.ends_with("1     1")),
            "{table}"
        );
        let table = said(trial, &["jobs", "hello"])?;
        ensure!(
            table.contains(id) && table.contains("RUN") && table.lines().count() == 2,
            "{table}"
        );
        for rank in 0..2 {
            run.go(rank).await?;
        }
        let attached = ends(trial, 4, &["attach", "hello", id])?;
        ensure!(attached.out == "gone\n", "{}", attached.out);
        let all = json(trial, &["jobs", "hello", "--all"])?;
        let failed = all.as_array().into_iter().flatten().filter(|job| job["state"] == "FAILED");
        ensure!(failed.count() == 2, "{all}");
        run.flux(&["resource", "drain", "1", "bad fan"]).await.or_else(|error| {
            // The stand-in has no such command.
            if View::from_environment()?.is_real() { Err(error) } else { Ok(String::new()) }
        })?;
        ends(trial, 125, &["attach", "absent", id])?;
        cancels(trial).await
    });
}

/// Which the stand-in does not simulate.
async fn cancels(trial: &Trial) -> Result<()> {
    if !View::from_environment()?.is_real() {
        not_run::note("cancel and drain", "the stand-in has neither", &Progress::new());
        return Ok(());
    }
    let table = said(trial, &["resources", "hello"])?;
    ensure!(table.contains("drained") && table.contains("bad fan"), "{table}");
    let id = said(trial, &["submit", "hello", "-n1", "--", "sleep", "600"])?;
    let id = id.trim();
    said(trial, &["cancel", "hello", id])?;
    let state = async || {
        let jobs = json(trial, &["jobs", "hello", "-a"])?;
        let job = jobs.as_array().into_iter().flatten().find(|job| job["id"] == id).cloned();
        Ok(job.filter(|job| job["state"] == "CANCELED").map(drop))
    };
    look("the end of the job", state).await?;
    said(trial, &["submit", "hello", "-n1", "--", "sleep", "600"])?;
    said(trial, &["cancel", "hello", "--all"])?;
    look("no job", async || {
        Ok(json(trial, &["jobs", "hello"])?.as_array().filter(|it| it.is_empty()).map(drop))
    })
    .await
}

/// As Flux's user, in every rank, with the code of the command; files both ways; the checks.
fn enters(trial: &Trial, name: &str, shell: &[&str], user: &str) -> Result<()> {
    let uid = said(trial, &[&["exec", name, "--"], shell, &["id -u"]].concat())?;
    ensure!(uid.trim() == user, "{name}: {uid}");
    let ended =
        ends(trial, 7, &[&["exec", name, "--rank", "1", "--"], shell, &["exit 7"]].concat())?;
    ensure!(ended.out.is_empty(), "{}", ended.out);
    let everywhere =
        [&["exec", name, "--all", "--"], shell, &["hostname; echo oops >&2; exit 3"]].concat();
    let ended = ends(trial, 3, &everywhere)?;
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    ensure!(lines == [format!("  0 | {name}-0"), format!("  1 | {name}-1")], "{}", ended.out);
    ensure!(ended.err.matches("| oops").count() == 2, "{}", ended.err);
    copies(trial, name, "/tmp/")?;
    let doctor = json(trial, &["doctor", name])?;
    ensure!(doctor[1]["checks"].as_array().is_some_and(|checks| checks.len() > 5), "{doctor}");
    said(trial, &["doctor", name, "--all"]).map(drop)
}

/// A directory there and back, and a file into another rank.
fn copies(trial: &Trial, name: &str, place: &str) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name);
    fs::create_dir_all(path("from/below"))?;
    let large: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(path("from/below/large"), &large)?;
    fs::write(path("from/run"), "#!/bin/sh\n")?;
    fs::set_permissions(path("from/run"), fs::Permissions::from_mode(0o750))?;
    std::os::unix::fs::symlink("below/large", path("from/link"))?;
    let text = |path: std::path::PathBuf| path.display().to_string();
    said(trial, &["cp", &text(path("from")), &format!("{name}:{place}copied")])?;
    said(trial, &["cp", &format!("{name}:{place}copied"), &text(path("back"))])?;
    ensure!(fs::read(path("back/below/large"))? == large, "another content");
    ensure!(fs::read_link(path("back/link"))? == std::path::Path::new("below/large"), "no link");
    let found = fs::metadata(path("back/run"))?;
    ensure!(found.permissions().mode() & 0o777 == 0o750, "{found:?}");
    ensure!(
        found.modified()?
            >= fs::metadata(path("from/run"))?.modified()? - std::time::Duration::from_secs(1),
        "{found:?}"
    );
    said(trial, &["cp", &text(path("from/run")), &format!("{name}[1]:{place}")])?;
    said(trial, &["cp", &format!("{name}[1]:{place}run"), &text(path("run"))])?;
    let absent = ends(trial, 1, &["cp", &format!("{name}:{place}absent"), &text(path("x"))])?;
    ensure!(absent.err.contains("absent: No such file"), "{}", absent.err);
    let closed = ends(trial, 1, &["cp", &text(path("run")), &format!("{name}:/proc/run")])?;
    ensure!(closed.err.contains("/proc/run"), "{}", closed.err);
    Ok(())
}

#[test]
#[ignore = "needs a cluster"]
fn commands_files_and_checks_reach_every_rank_as_fluxs_user() {
    trial("plugin-inside", async |trial| {
        let run = instance(trial, "hello", SPEC).await?;
        let user = run.exec(0, &["id", "-u", "flux"]).await?;
        enters(trial, "hello", &["sh", "-c"], user.trim())?;
        let mut shell = trial.plugin(&["shell", "hello", "--rank", "1"])?;
        let typed = directory_with("hostname; exit 5\n")?;
        shell.stdin(fs::File::open(typed.path().join("typed"))?);
        let ended = shell.output()?;
        let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
        ensure!(ended.status.code() == Some(5) && printed == "hello-1\n", "{printed}: {ended:?}");
        let absent = ends(trial, 125, &["exec", "hello", "--rank", "7", "--", "true"])?;
        ensure!(absent.err.contains("no pod of rank 7; there are 0, 1"), "{}", absent.err);
        Ok(())
    });
}

fn directory_with(typed: &str) -> Result<tempfile::TempDir> {
    let directory = tempfile::tempdir()?;
    fs::write(directory.path().join("typed"), typed)?;
    Ok(directory)
}

/// An image without a shell, whose only program is not on the `PATH`; and a uid that has no account.
#[test]
#[ignore = "needs a cluster"]
fn an_image_without_a_shell_and_a_uid_without_an_account_are_entered_in_the_same_way() {
    trial("plugin-bare", async |trial| {
        let bare = "{size: 2, interactive: true, containers: [{\
            image: gcr.io/distroless/static-debian12}]}";
        let other = "{size: 2, interactive: true, containers: [{image: 'ubuntu:24.04', \
            securityContext: {runAsUser: 54321, runAsGroup: 54321}}]}";
        let _other = instance(trial, "other", other).await?;
        enters(trial, "other", &["sh", "-c"], "54321")?;
        let _bare = instance(trial, "bare", bare).await?;
        // Its user can write at home and nowhere else.
        copies(trial, "bare", "")?;
        let version = said(trial, &["exec", "bare", "--all", "--", "flux", "getattr", "rank"])?;
        ensure!(version.lines().count() == 2, "{version}");
        json(trial, &["doctor", "bare"])?;
        let absent = ends(trial, 127, &["exec", "bare", "--", "/no/such/program"])?;
        ensure!(absent.err.contains("/no/such/program"), "{}", absent.err);
        Ok(())
    });
}
