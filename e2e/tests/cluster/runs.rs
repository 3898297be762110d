//! How runs end: who failed, and what a person is shown of it. Each case is a MiniCluster that ends by itself.

use anyhow::{Result, ensure};
use e2e::trial::{Trial, instance::specification};
use flux_contract::Exit;
use futures::future::try_join_all;

use crate::{apply, install::has_image_volumes, run, trial};

/// Exit code and reason of a MiniCluster that has failed, and parts of the condition's message.
type Failed = (Option<i32>, &'static str, &'static [&'static str]);

/// A MiniCluster, and how it ends.
struct Case {
    name: &'static str,
    spec: String,
    failed: Option<Failed>,
    /// Each is printed once, whichever pods there were.
    lines: &'static [&'static str],
}

impl Case {
    async fn ends(&self, trial: &Trial) -> Result<()> {
        let run = apply(trial, self.name, &self.spec).await?;
        if let Some((code, reason, words)) = self.failed {
            let (found, message) = run.fails(reason).await?;
            ensure!(found == code, "{}: {found:?}: {message}", self.name);
            for word in words {
                ensure!(message.contains(word), "{}: no {word:?} in {message}", self.name);
            }
        } else {
            run.complete().await?;
        }
        for line in self.lines {
            let times = run.times(line).await?;
            ensure!(times == 1, "{}: {line:?} was printed {times} times", self.name);
        }
        Ok(())
    }
}

fn case(
    name: &'static str,
    spec: String,
    failed: impl Into<Option<Failed>>,
    lines: &'static [&'static str],
) -> Case {
    Case { name, spec, failed: failed.into(), lines }
}

/// All cases at the same time, in one namespace.
fn each_ends(purpose: &str, cases: &[Case]) {
    trial(purpose, &[], async |trial| {
        try_join_all(cases.iter().map(|case| case.ends(trial))).await.map(drop)
    });
}

/// A specification of one pod with this container.
fn one(container: &str) -> String {
    specification(&["size: 1"], container)
}

#[test]
#[ignore = "needs a cluster"]
fn what_flux_refuses_is_no_failed_command() {
    let refused = |name, fields: &str, words: &'static [&'static str]| {
        let failed = (Some(Exit::FluxRefused.code().into()), Exit::FluxRefused.reason(), words);
        case(name, specification(&["size: 1", fields], "command: 'echo hello'"), failed, &[])
    };
    each_ends(
        "refused",
        &[
            refused("too-much", "tasks: 500", &["Flux did not start the command"]),
            refused("no-flag", "flux: {optionFlags: --no-such-flag}", &["unrecognized arguments"]),
        ],
    );
}

#[test]
#[ignore = "needs a cluster"]
fn a_command_meets_the_end_of_its_input_and_jobs_that_it_leaves_are_cancelled() {
    trial("ends", &[], async |trial| {
        for (name, container, words) in [
            ("input", "command: 'cat | wc -l'", "\n0\n"),
            ("left", "launcher: true, command: flux submit sleep 600", "cleanup-success"),
            ("none", "launcher: true, command: flux run true", "cleanup-none"),
        ] {
            let run = run(trial, name, "size: 1", container).await?;
            run.complete().await?;
            let log = run.log(0).await?;
            ensure!(log.contains(words), "{name}: no {words:?} in the log:\n{log}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_batch_that_fails_shows_its_output_and_names_the_line() {
    let lines = r"echo hello\n# a comment\nsh -c 'echo broken; exit 2'\n--no-such-flag hostname\n";
    let named = &["job-2 (sh -c 'echo broken; exit 2')", "job-3 (--no-such-flag hostname)"];
    let spec = one(&format!(r#"batch: true, command: "{lines}""#));
    let failed: Failed = (Some(1), "CommandFailed", named);
    each_ends("batch-fails", &[case("batch", spec, failed, &["broken"])]);
}

#[test]
#[ignore = "needs a cluster"]
fn a_command_that_fails_is_run_once_whatever_its_code_is() {
    let codes = [("two", 2), ("seven", 7), ("temporary", 75), ("killed", 137), ("terminated", 143)];
    let cases = codes.map(|(name, code)| {
        let spec = one(&format!("command: 'echo once; exit {code}'"));
        case(name, spec, (Some(code), "CommandFailed", &[][..]), &["once"])
    });
    each_ends("codes", &cases);
}

/// The first attempt fails when its sidecar is there, the second ends well when it has one as well.
const AGAIN: &str = "
  size: 1
  backoffLimit: 5
  pod: {restartPolicy: OnFailure}
  containers:
    - image: ubuntu:24.04
      runFlux: true
      command: |
        n=1; [ -e /state/failed ] && n=2; i=0
        while [ ! -e /state/beside-$n ] && [ $i -lt 90 ]; do sleep 1; i=$((i+1)); done
        [ -e /state/beside-$n ] || exit 3
        [ $n = 2 ] || { touch /state/failed; exit 7; }
      volumes: {state: {path: /state}}
    - image: ubuntu:24.04
      name: beside
      command: n=1; [ -e /state/failed ] && n=2; touch /state/beside-$n; exec sleep 3600
      volumes: {state: {path: /state}}
";

#[test]
#[ignore = "needs a cluster"]
fn a_sidecar_that_fails_is_the_reason_in_the_end_and_a_second_attempt_has_its_sidecar() {
    let failing = "{size: 1, containers: [\
        {image: 'ubuntu:24.04', runFlux: true, command: 'echo once; sleep 8'}, \
        {image: 'ubuntu:24.04', name: beside, command: 'exit 3'}]}";
    let failed: Failed = (Some(0), "ContainerFailed", &["container beside exited with code 3"]);
    each_ends(
        "sidecars",
        &[
            case("fails", failing.to_owned(), failed, &["once"]),
            case("again", AGAIN.to_owned(), None, &[]),
        ],
    );
}

/// Mounted, it is the runner that looks for Flux; copied, the container that copies. With one pod, because the status
/// has the exit code of the lead alone, and a worker may fail before it.
#[test]
#[ignore = "needs a cluster"]
fn a_view_that_cannot_be_used_fails_the_run_with_its_reason() {
    let view = |name, view: &str, failed: Failed| {
        let fields = ["size: 1", &format!("flux: {{container: {{{view}}}}}")];
        case(name, specification(&fields, "command: 'echo once'"), failed, &[])
    };
    let none = &["container flux-view exited with code 66: flux-agent: found no Flux", "/opt/view"];
    let tight = &["container flux-view exited with code 66", "may have 8 MiB", "flux.container"];
    let memory = "install: Copy, medium: Memory, resources: {limits: {memory: 8Mi}}";
    let mut cases = vec![
        view("copied", "image: 'ubuntu:24.04', install: Copy", (None, "ContainerFailed", none)),
        view("tight", memory, (None, "ContainerFailed", tight)),
    ];
    if has_image_volumes().unwrap() {
        let failed = (Some(66), "ViewUnusable", &["found no Flux"][..]);
        cases.push(view("mounted", "image: 'ubuntu:24.04', install: Image", failed));
    }
    each_ends("views", &cases);
}

/// PID 1 reads the reason of a batch that failed, in a directory of Flux's user.
#[test]
#[ignore = "needs a cluster"]
fn what_a_job_puts_where_the_agent_reads_holds_up_nothing_and_roots_directories_stay_roots() {
    let trap = |name, make: &str| {
        let command =
            format!("cd /mnt/flux/config/run && {make} x && mv -f x command.failure; exit 5");
        let limit = "resources: {limits: {memory: 512Mi}}";
        let spec = one(&format!("batch: true, batchRaw: true, command: '{command}', {limit}"));
        case(name, spec, (Some(5), "CommandFailed", &[][..]), &[])
    };
    let place = |name, place: &str, lines: &'static [&'static str]| {
        let post = format!("commands: {{post: 'stat -c \"%n is of %U\" {place}'}}");
        let spec = one(&format!("workingDir: {place}, command: pwd, {post}"));
        case(name, spec, None, lines)
    };
    each_ends(
        "traps",
        &[
            trap("pipe", "mkfifo"),
            trap("device", "ln -s /dev/zero"),
            place("home", "/root", &["/home/flux", "/root is of root"]),
            place("system", "/etc", &["/etc", "/etc is of root"]),
        ],
    );
}

/// Quotes inside the command, a Service with two ports, a ConfigMap under another name, and pod
/// resources without a runtime class: bugs of the operator in Go that only a cluster can show, by their numbers in
/// `operator/tests/it/go_differences.txt`.
const ALL_AT_ONCE: &str = "
  size: 2
  pod: {resources: {memory: 256Mi}}
  containers:
    - image: ubuntu:24.04
      runFlux: true
      command: bash -c \"cat '/inputs/a b'\"
      volumes: {inputs: {configMapName: simulation, path: /inputs, items: {text: a b}}}
    - image: ubuntu:24.04
      name: web
      runFlux: false
      command: sleep infinity
      ports: [80, 443]
";

#[test]
#[ignore = "needs a cluster"]
fn bug_02_09_10_and_13_what_was_refused_or_lost_runs_and_completes() {
    trial("bug-09", &[], async |trial| {
        let run = apply(trial, "all", ALL_AT_ONCE).await?;
        run.kubectl(&["create", "configmap", "simulation", "--from-literal=text=one two\n"])?;
        run.complete().await?;
        run.each_once(&["one two"]).await
    });
}
