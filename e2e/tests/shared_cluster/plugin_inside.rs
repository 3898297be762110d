//! `kubectl flux` inside a running instance: jobs and resources, commands, files, checks.

use crate::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// An instance with two brokers that are up.
async fn instance<'run>(trial: &'run Trial, name: &'run str, spec: &str) -> Result<Instance<'run>> {
    let run = trial.start(name, spec).await?;
    run.ready_with(2).await?;
    Ok(run)
}

const SPEC: &str = "{size: 2, interactive: true, containers: [{image: 'ubuntu:24.04', \
    resources: {limits: {cpu: '1', memory: 512Mi}, requests: {cpu: 100m}}}]}";

#[test]
#[ignore = "needs a cluster"]
fn jobs_are_submitted_listed_followed_and_cancelled() {
    trial("plugin-jobs", async |trial| {
        let run = instance(trial, "hello", SPEC).await?;
        let ranks = trial.plugin_json(&["resources", "hello"])?;
        ensure!(ranks[1]["cores"] == 1 && ranks[1]["up"] == true, "{ranks}");
        ensure!(ranks.as_array().is_some_and(|ranks| ranks.len() == 2), "{ranks}");
        let follow = ["submit", "hello", "-N2", "--watch", "--", "sh", "-c", "hostname; exit 3"];
        let watched = trial.plugin_ends(3, &follow)?;
        ensure!(sorted(&watched.out) == ["hello-0", "hello-1"], "{watched:?}");
        let wait = "until test -e /tmp/go; do sleep 0.1; done; echo gone; exit 4";
        let id = trial.plugin_prints(&["submit", "hello", "-n1", "--", "sh", "-c", wait])?;
        let id = id.trim();
        until_true("the job to run", async || {
            let jobs = trial.plugin_json(&["jobs", "hello"])?;
            Ok(jobs[0]["id"] == id && jobs[0]["state"] == "RUN")
        })
        .await?;
        let table = trial.plugin_prints(&["resources", "hello"])?;
        ensure!(
            table.lines().any(|line| line.starts_with("all") && line.ends_with("1     1")),
            "{table}"
        );
        let table = trial.plugin_prints(&["jobs", "hello"])?;
        ensure!(
            table.contains(id) && table.contains("RUN") && table.lines().count() == 2,
            "{table}"
        );
        run.go_all(2).await?;
        let attached = trial.plugin_ends(4, &["attach", "hello", id])?;
        ensure!(attached.out == "gone\n", "{}", attached.out);
        let all = trial.plugin_json(&["jobs", "hello", "--all"])?;
        let failed = all.as_array().into_iter().flatten().filter(|job| job["state"] == "FAILED");
        ensure!(failed.count() == 2, "{all}");
        trial.plugin_ends(125, &["attach", "absent", id])?;
        drains_and_cancels(trial, &run).await
    });
}

/// The stand-in does not simulate these.
async fn drains_and_cancels(trial: &Trial, run: &Instance<'_>) -> Result<()> {
    if lacks_real_flux("cancel and drain", "the stand-in has neither")? {
        return Ok(());
    }
    run.flux(&["resource", "drain", "1", "bad fan"]).await?;
    let table = trial.plugin_prints(&["resources", "hello"])?;
    ensure!(table.contains("drained") && table.contains("bad fan"), "{table}");
    let id = trial.plugin_prints(&["submit", "hello", "-n1", "--", "sleep", "600"])?;
    let id = id.trim();
    trial.plugin_prints(&["cancel", "hello", id])?;
    let state = async || {
        let jobs = trial.plugin_json(&["jobs", "hello", "-a"])?;
        let job = jobs.as_array().into_iter().flatten().find(|job| job["id"] == id).cloned();
        Ok(job.filter(|job| job["state"] == "CANCELED").map(drop))
    };
    wait_for("the end of the job", state).await?;
    trial.plugin_prints(&["submit", "hello", "-n1", "--", "sleep", "600"])?;
    trial.plugin_prints(&["cancel", "hello", "--all"])?;
    until_true("no job", async || Ok(trial.plugin_json(&["jobs", "hello"])? == json!([]))).await
}

/// Runs commands in every rank as Flux's user, copies files both ways, and runs the checks.
fn enters(trial: &Trial, name: &str, shell: &[&str], user: &str) -> Result<()> {
    let uid = trial.plugin_prints(&[&["exec", name, "--"], shell, &["id -u"]].concat())?;
    ensure!(uid.trim() == user, "{name}: {uid}");
    let ended = trial
        .plugin_ends(7, &[&["exec", name, "--rank", "1", "--"], shell, &["exit 7"]].concat())?;
    ensure!(ended.out.is_empty(), "{}", ended.out);
    let everywhere =
        [&["exec", name, "--all", "--"], shell, &["hostname; echo oops >&2; exit 3"]].concat();
    let ended = trial.plugin_ends(3, &everywhere)?;
    let hosts = [format!("  0 | {name}-0"), format!("  1 | {name}-1")];
    ensure!(sorted(&ended.out) == hosts, "{}", ended.out);
    ensure!(ended.err.matches("| oops").count() == 2, "{}", ended.err);
    copies(trial, name, "/tmp/")?;
    let doctor = trial.plugin_json(&["doctor", name])?;
    ensure!(doctor[1]["checks"].as_array().is_some_and(|checks| checks.len() > 5), "{doctor}");
    trial.plugin_prints(&["doctor", name, "--all"]).map(drop)
}

/// Copies a directory there and back, and a file into another rank.
fn copies(trial: &Trial, name: &str, place: &str) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name);
    fs::create_dir_all(path("from/below"))?;
    let large: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(path("from/below/large"), &large)?;
    fs::write(path("from/run"), "#!/bin/sh\n")?;
    fs::set_permissions(path("from/run"), fs::Permissions::from_mode(0o750))?;
    std::os::unix::fs::symlink("below/large", path("from/link"))?;
    let text = |path: PathBuf| path.display().to_string();
    trial.plugin_prints(&["cp", &text(path("from")), &format!("{name}:{place}copied")])?;
    trial.plugin_prints(&["cp", &format!("{name}:{place}copied"), &text(path("back"))])?;
    ensure!(fs::read(path("back/below/large"))? == large, "another content");
    ensure!(fs::read_link(path("back/link"))? == Path::new("below/large"), "no link");
    let found = fs::metadata(path("back/run"))?;
    ensure!(found.permissions().mode() & 0o777 == 0o750, "{found:?}");
    ensure!(
        found.modified()? >= fs::metadata(path("from/run"))?.modified()? - Duration::from_secs(1),
        "{found:?}"
    );
    trial.plugin_prints(&["cp", &text(path("from/run")), &format!("{name}[1]:{place}")])?;
    trial.plugin_prints(&["cp", &format!("{name}[1]:{place}run"), &text(path("run"))])?;
    let absent =
        trial.plugin_ends(1, &["cp", &format!("{name}:{place}absent"), &text(path("x"))])?;
    ensure!(absent.err.contains("absent: No such file"), "{}", absent.err);
    let closed = trial.plugin_ends(1, &["cp", &text(path("run")), &format!("{name}:/proc/run")])?;
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
        let typed = tempfile::NamedTempFile::new()?;
        fs::write(&typed, "hostname; exit 5\n")?;
        shell.stdin(typed.reopen()?);
        let ended = shell.output()?;
        let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
        ensure!(ended.status.code() == Some(5) && printed == "hello-1\n", "{printed}: {ended:?}");
        let absent = trial.plugin_ends(125, &["exec", "hello", "--rank", "7", "--", "true"])?;
        ensure!(absent.err.contains("no pod of rank 7; there are 0, 1"), "{}", absent.err);
        Ok(())
    });
}

/// An image without a shell, whose only program is not on the `PATH`; and a uid that has no account.
#[test]
#[ignore = "needs a cluster"]
fn images_without_shell_and_users_without_account_are_entered() {
    trial("plugin-bare", async |trial| {
        let bare = "{size: 2, interactive: true, containers: [{\
            image: gcr.io/distroless/static-debian12}]}";
        let other = "{size: 2, interactive: true, containers: [{image: 'ubuntu:24.04', \
            securityContext: {runAsUser: 54321, runAsGroup: 54321}}]}";
        let _other = instance(trial, "other", other).await?;
        enters(trial, "other", &["sh", "-c"], "54321")?;
        if !View::from_environment()?.has_c_library()? {
            notes::not_run("an image without a shell is entered", "the view has no C library");
            return Ok(());
        }
        let _bare = instance(trial, "bare", bare).await?;
        // Its user can write at home and nowhere else.
        copies(trial, "bare", "")?;
        let version =
            trial.plugin_prints(&["exec", "bare", "--all", "--", "flux", "getattr", "rank"])?;
        ensure!(version.lines().count() == 2, "{version}");
        trial.plugin_json(&["doctor", "bare"])?;
        let absent = trial.plugin_ends(127, &["exec", "bare", "--", "/no/such/program"])?;
        ensure!(absent.err.contains("/no/such/program"), "{}", absent.err);
        Ok(())
    });
}
