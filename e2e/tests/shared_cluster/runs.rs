//! How runs end: which part failed, and what the status shows. Each case is a MiniCluster that ends by itself.

use crate::install::has_image_volumes;
use crate::prelude::*;
use flux_contract::Exit;
use futures::future::try_join_all;

/// Starts a MiniCluster and waits until it has failed, with this exit code and reason, and a message with `words`.
async fn fails<'run>(
    trial: &'run Trial,
    name: &'run str,
    spec: &str,
    code: Option<i32>,
    reason: &str,
    words: &[&str],
) -> Result<Instance<'run>> {
    let run = trial.start(name, spec).await?;
    let (found, message) = run.fails(reason).await?;
    ensure!(found == code, "{name}: {found:?}: {message}");
    for word in words {
        ensure!(message.contains(word), "{name}: no {word:?} in {message}");
    }
    Ok(run)
}

/// Fails unless the line was printed once in the logs of all pods.
async fn printed_once(run: &Instance<'_>, line: &str) -> Result<()> {
    let times = run.times(line).await?;
    ensure!(times == 1, "{}: {line:?} was printed {times} times", run.name);
    Ok(())
}

fn one(container: &str) -> String {
    specification(&["size: 1"], container)
}

#[test]
#[ignore = "needs a cluster"]
fn what_flux_refuses_is_no_failed_command() {
    trial("refused", async |trial| {
        let refused = async |name, fields, words| {
            let spec = specification(&["size: 1", fields], "command: 'echo hello'");
            let code = Some(Exit::FluxRefused.code().into());
            fails(trial, name, &spec, code, Exit::FluxRefused.reason(), &[words]).await
        };
        refused("too-much", "tasks: 500", "Flux did not start the command").await?;
        let flag = "flux: {optionFlags: --no-such-flag}";
        refused("no-flag", flag, "unrecognized arguments").await.map(drop)
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_command_meets_the_end_of_its_input() {
    trial("ends", async |trial| {
        // Flux has a part of this time for two programs in Python that cancel jobs, which takes longer on a busy node.
        let fields = "size: 1, flux: {drainSeconds: 60}";
        for (name, container, words) in [
            ("input", "command: 'cat | wc -l'", "\n0\n"),
            ("left", "launcher: true, command: flux submit sleep 600", "cleanup-success"),
            ("none", "launcher: true, command: flux run true", "cleanup-none"),
        ] {
            let run = trial.run(name, fields, container).await?;
            run.complete().await?;
            let log = run.log(0).await?;
            ensure!(log.contains(words), "{name}: no {words:?} in the log:\n{log}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_failed_batch_shows_its_output_and_its_line() {
    trial("batch-fails", async |trial| {
        let lines =
            r"echo hello\n# a comment\nsh -c 'echo broken; exit 2'\n--no-such-flag hostname\n";
        let spec = one(&format!(r#"batch: true, command: "{lines}""#));
        let named = ["job-2 (sh -c 'echo broken; exit 2')", "job-3 (--no-such-flag hostname)"];
        let run = fails(trial, "batch", &spec, Some(1), "CommandFailed", &named).await?;
        printed_once(&run, "broken").await
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_failed_command_runs_once_with_any_code() {
    trial("codes", async |trial| {
        let ends = [
            ("two", "exit 2", 2),
            ("seven", "exit 7", 7),
            ("temporary", "exit 75", 75),
            ("lost", "exit 255", 255),
            ("killed", "exit 137", 137),
            ("terminated", "exit 143", 143),
            ("signal", "kill -9 $$", 137),
        ];
        let cases = ends.map(async |(name, end, code)| {
            let spec = one(&format!("command: \"sh -c 'echo once; {end}'\""));
            let run = fails(trial, name, &spec, Some(code), "CommandFailed", &[]).await?;
            printed_once(&run, "once").await
        });
        try_join_all(cases).await.map(drop)
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_failed_sidecar_is_the_reason_and_starts_again() {
    trial("sidecars", async |trial| {
        trial.apply(include_str!("manifests/again.yaml")).await?;
        let spec = "{size: 1, containers: [\
            {image: 'ubuntu:24.04', runFlux: true, command: 'echo once; sleep 8'}, \
            {image: 'ubuntu:24.04', name: beside, command: 'exit 3'}]}";
        let words = ["container beside exited with code 3"];
        let run = fails(trial, "fails", spec, Some(0), "ContainerFailed", &words).await?;
        printed_once(&run, "once").await?;
        trial.named("again").complete().await.map(drop)
    });
}

/// With a mounted view the runner looks for Flux; with a copied view the container that copies. With one pod, because
/// the status has the exit code of the lead only, and a worker may fail before it.
#[test]
#[ignore = "needs a cluster"]
fn an_unusable_view_fails_the_run_with_a_reason() {
    trial("views", async |trial| {
        let view = async |name, view: &str, code, reason, words| {
            let fields = ["size: 1", &format!("flux: {{container: {{{view}}}}}")];
            let spec = specification(&fields, "command: 'echo once'");
            fails(trial, name, &spec, code, reason, words).await
        };
        let words =
            ["container flux-view exited with code 66: flux-agent: found no Flux", "/opt/view"];
        let copied = "image: 'ubuntu:24.04', install: Copy";
        view("copied", copied, None, "ContainerFailed", &words).await?;
        let words = ["container flux-view exited with code 66", "may have 8 MiB", "flux.container"];
        let tight = "install: Copy, medium: Memory, resources: {limits: {memory: 8Mi}}";
        view("tight", tight, None, "ContainerFailed", &words).await?;
        if has_image_volumes()? {
            let mounted = "image: 'ubuntu:24.04', install: Image";
            view("mounted", mounted, Some(66), "ViewUnusable", &["found no Flux"]).await?;
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn bugs_02_09_10_and_13_complete_here() {
    trial("bug-09", async |trial| {
        trial.apply(include_str!("manifests/all-at-once.yaml")).await?;
        let run = trial.named("all");
        run.kubectl(&["create", "configmap", "simulation", "--from-literal=text=one two\n"])?;
        run.complete().await?;
        run.each_once(&["one two"]).await
    });
}
