//! How runs end: who failed, what a person is shown of it, and what a second attempt finds.

use crate::{DEADLINE, apply, failure, lead_log, trial};
use anyhow::{Result, ensure};
use e2e::trial::{Trial, is_true};
use flux_contract::Exit;
use flux_operator::crd::MiniCluster;

/// Applies `spec`, waits for its end, and gives it with the log of its lead.
async fn run(trial: &Trial, name: &str, spec: &str) -> Result<(MiniCluster, String)> {
    let name = apply(trial, name, spec).await?;
    let cluster = trial.await_finished(&name, DEADLINE).await?;
    let log = lead_log(trial, &name).await?;
    Ok((cluster, log))
}

#[test]
#[ignore = "needs a cluster"]
fn a_command_that_reads_its_input_meets_its_end() {
    trial("input", &[], async |trial| {
        let spec = "{size: 1, containers: [{image: 'ubuntu:24.04', command: 'cat | wc -l'}]}";
        let (cluster, log) = run(trial, "input", spec).await?;
        ensure!(is_true(&cluster, "Complete"), "conditions: {:?}", cluster.status);
        ensure!(log.lines().any(|line| line.trim() == "0"), "log of the lead:\n{log}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_batch_that_fails_shows_its_output_and_names_the_line() {
    trial("batch-fails", &[], async |trial| {
        let command =
            r"echo hello\n# a comment\nsh -c 'echo broken; exit 2'\n--no-such-flag hostname\n";
        let spec = format!(
            r#"{{size: 1, containers: [{{image: "ubuntu:24.04", batch: true, command: "{command}"}}]}}"#
        );
        let (cluster, log) = run(trial, "batch-fails", &spec).await?;
        let (code, reason, message) = failure(&cluster)?;
        ensure!((code, reason) == (Some(1), "CommandFailed"), "{code:?} {reason}: {message}");
        ensure!(message.contains("job-2 (sh -c 'echo broken; exit 2')"), "{message}");
        ensure!(message.contains("job-3 (--no-such-flag hostname)"), "{message}");
        ensure!(log.contains("job-2 failed"), "log of the lead:\n{log}");
        ensure!(log.contains("job-3 failed: it was not submitted"), "log of the lead:\n{log}");
        ensure!(log.lines().any(|line| line == "broken"), "log of the lead:\n{log}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn jobs_that_a_command_leaves_are_cancelled_and_without_any_nothing_is_cleaned_up() {
    trial("left", &[], async |trial| {
        for (name, command, cleanup) in [
            ("left", "flux submit sleep 600", "cleanup-success"),
            ("none", "flux run true", "cleanup-none"),
        ] {
            let spec = format!(
                "{{size: 1, containers: [{{image: 'ubuntu:24.04', launcher: true, command: '{command}'}}]}}"
            );
            let (cluster, log) = run(trial, name, &spec).await?;
            ensure!(is_true(&cluster, "Complete"), "conditions: {:?}", cluster.status);
            ensure!(log.contains(cleanup), "log of the lead:\n{log}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn what_flux_refuses_is_no_failed_command() {
    trial("refused", &[], async |trial| {
        let refused = Exit::FluxRefused;
        for (name, more, told) in [
            ("too-much", "tasks: 500", "Flux did not start the command"),
            ("no-flag", "flux: {optionFlags: --no-such-flag}", "unrecognized arguments"),
        ] {
            let containers = "containers: [{image: 'ubuntu:24.04', command: 'echo hello'}]";
            let (cluster, _) =
                run(trial, name, &format!("{{size: 1, {more}, {containers}}}")).await?;
            let (code, reason, message) = failure(&cluster)?;
            ensure!(code == Some(refused.code().into()), "{code:?}: {message}");
            ensure!(reason == refused.reason() && message.contains(told), "{reason}: {message}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_sidecar_that_fails_is_the_reason_in_the_end() {
    trial("beside", &[], async |trial| {
        let spec = "{size: 1, containers: [{image: 'ubuntu:24.04', runFlux: true, command: 'echo once; sleep 8'}, \
                    {image: 'ubuntu:24.04', name: beside, command: 'exit 3'}]}";
        let (cluster, log) = run(trial, "failing-sidecar", spec).await?;
        let (code, reason, message) = failure(&cluster)?;
        ensure!((code, reason) == (Some(0), "ContainerFailed"), "{code:?} {reason}: {message}");
        ensure!(message.contains("container beside exited with code 3"), "{message}");
        ensure!(log.lines().any(|line| line == "once"), "log of the lead:\n{log}");
        Ok(())
    });
}

/// The first attempt fails when its sidecar is there, the second ends well when it has one as well.
#[test]
#[ignore = "needs a cluster"]
fn a_second_attempt_in_the_same_pod_has_its_sidecar() {
    trial("again", &[], async |trial| {
        let command = "n=1; [ -e /state/failed ] && n=2; i=0; \
                       while [ ! -e /state/beside-$n ] && [ $i -lt 90 ]; do sleep 1; i=$((i+1)); done; \
                       [ -e /state/beside-$n ] || exit 3; [ $n = 2 ] || { touch /state/failed; exit 7; }";
        let beside = "n=1; [ -e /state/failed ] && n=2; touch /state/beside-$n; exec sleep 3600";
        let volumes = "volumes: {state: {path: /state}}";
        let spec = format!(
            r#"{{size: 1, backoffLimit: 5, pod: {{restartPolicy: OnFailure}}, containers: [
            {{image: "ubuntu:24.04", runFlux: true, command: "{command}", {volumes}}},
            {{image: "ubuntu:24.04", name: beside, command: "{beside}", {volumes}}}]}}"#
        );
        let (cluster, log) = run(trial, "again", &spec).await?;
        ensure!(is_true(&cluster, "Complete"), "{:?}\nlog of the lead:\n{log}", cluster.status);
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn an_archive_that_cannot_be_looked_at_ends_the_run_and_is_not_replaced() {
    trial("archive", &[], async |trial| {
        let archive = "/state/archive.tgz";
        let spec = format!(
            r#"{{size: 1, archive: {{path: {archive}}}, containers: [{{
            image: "ubuntu:24.04", command: "echo hello", volumes: {{state: {{path: /state}}}},
            commands: {{init: "ln -s {archive} {archive}", post: "echo is $(readlink {archive})"}}}}]}}"#
        );
        let (cluster, log) = run(trial, "archive", &spec).await?;
        let (code, reason, message) = failure(&cluster)?;
        ensure!(code == Some(Exit::Prepare.code().into()), "{code:?} {reason}: {message}");
        ensure!(message.contains("look for archive"), "{reason}: {message}");
        ensure!(log.contains(&format!("is {archive}")), "log of the lead:\n{log}");
        ensure!(!log.lines().any(|line| line == "hello"), "log of the lead:\n{log}");
        Ok(())
    });
}
