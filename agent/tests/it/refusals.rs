//! Tells failures of Flux from those of the command: runs of the real binary with a shell script in place of Flux.

use crate::prelude::*;
use flux_contract::FailedTask;

const EXCEPTION: &str = r#"{"name":"exception","context":{"type":"alloc","severity":0,"note":"need 2 node(s) with 25 cores each, only 0 eligible"}}"#;
const NOT_FOUND: &str = r#"{"name":"exception","context":{"type":"exec","severity":0,"note":"task 0 (host hello-0): start failed: sh: No such file or directory"}}"#;

/// The end of a run: the exit code, whether the command ran, and the error.
fn end(pod: &Pod, command: &[&str]) -> (i32, bool, String) {
    let ended = pod.run(&pod.config(command));
    let message = pod.message();
    ended.with_code(message.exit_code);
    (message.exit_code, message.command_ran, message.last_error.unwrap_or_default())
}

fn refused() -> i32 {
    Exit::FluxRefused.code().into()
}

#[test]
fn a_refused_submission_is_no_failed_command() {
    let pod = Pod::new();
    let refuses =
        "echo usage >&2; echo 'flux submit: error: unrecognized arguments: --x' >&2; exit 2";
    fs::write(pod.at("refuses"), refuses).unwrap();
    let expected = "Flux did not take the command (exit code 2): flux submit: error: unrecognized arguments: --x";
    assert_eq!(end(&pod, &["true"]), (refused(), false, expected.to_owned()));
    // Jobs of an earlier instance, from an archive, do not count.
    fs::write(pod.at("history"), "1\n").unwrap();
    assert_eq!(end(&pod, &["true"]).0, refused());
    // The agent's own lines, which a thread writes, may come between those of Flux.
    let log = pod.run(&pod.config(&["true"])).log;
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("flux-agent:")).collect();
    assert!(lines.join("\n").contains("usage\nflux submit: error"), "{log}");
    fs::write(pod.at("refuses"), "echo 'flux-batch: ERROR: no slots' >&2; exit 1").unwrap();
    pod.run(&pod.batch("true\n")).with_code(refused());
    assert!(pod.last_error().ends_with("flux-batch: ERROR: no slots"));
    // If Flux does not answer, the code counts as that of the command.
    fs::write(pod.at("silent"), "").unwrap();
    let (code, ran, _) = end(&pod, &["true"]);
    assert_eq!((code, ran), (1, true));
}

#[test]
fn a_job_that_flux_never_started_is_no_failed_command() {
    let pod = Pod::new();
    fs::write(pod.at("events"), EXCEPTION).unwrap();
    let expected =
        "Flux did not start the command: alloc: need 2 node(s) with 25 cores each, only 0 eligible";
    assert_eq!(end(&pod, &["sh", "-c", "exit 1"]), (refused(), false, expected.to_owned()));
}

#[test]
fn a_command_that_ran_keeps_its_exit_code() {
    let pod = Pod::new();
    assert_eq!(end(&pod, &["sh", "-c", "exit 2"]), (2, true, String::new()));
    fs::write(pod.at("events"), EXCEPTION.replace("\"severity\":0", "\"severity\":3")).unwrap();
    let (code, ..) = end(&pod, &["sh", "-c", "exit 1"]);
    assert_eq!(code, 1, "a warning, and the job was not started yet");
    fs::write(pod.at("events"), format!("{{\"name\":\"start\"}}\n{EXCEPTION}\n")).unwrap();
    assert_eq!(end(&pod, &["sh", "-c", "exit 1"]).0, 1, "its execution is not known");
    fs::write(pod.at("execution"), "{\"name\":\"shell.init\"}\n").unwrap();
    assert_eq!(end(&pod, &["sh", "-c", "exit 1"]).0, 1);
    fs::write(pod.at("execution"), "{\"name\":\"init\"}\n").unwrap();
    assert_eq!(end(&pod, &["sh", "-c", "exit 1"]).0, refused(), "no shell was ever ready");
}

#[test]
fn a_failed_command_has_its_job_task_and_last_lines() {
    let pod = Pod::new();
    let exit = r#"{"name":"shell.task-exit","context":{"rank":2,"wait_status":768}}"#;
    fs::write(pod.at("execution"), format!("{exit}\n")).unwrap();
    let script = "seq 1000 1999 >&2; echo 'flux-job: task(s) exited with exit code 3' >&2; exit 3";
    pod.run(&pod.config(&["sh", "-c", script]))
        .with_code(3)
        .with_log("\n1000\n")
        .with_log("flux-job: task");
    let message = pod.message();
    let output = message.output.unwrap();
    assert!(output.len() <= 1024 && output.ends_with("\n1998\n1999\n"), "{output}");
    let host = Some("hello-2".to_owned());
    assert_eq!(message.failed_task, Some(FailedTask { rank: 2, host, signal: None }));
    assert!(message.jobid.unwrap().starts_with('ƒ'));
    // A successful command has only its job.
    pod.run(&pod.config(&["sh", "-c", "echo fine >&2"])).with_code(0);
    let message = pod.message();
    assert_eq!((message.failed_task, message.output), (None, None));
    assert!(message.jobid.unwrap().starts_with('ƒ'));
}

#[test]
fn a_missing_program_and_the_need_for_a_shell_are_named() {
    let pod = Pod::new();
    fs::write(pod.at("events"), format!("{{\"name\":\"start\"}}\n{NOT_FOUND}\n")).unwrap();
    let (code, ran, error) = end(&pod, &["sh", "-c", "exit 127 $A"]);
    assert_eq!((code, ran), (127, true));
    assert!(error.contains("start failed: sh: No such file"), "{error}");
    assert!(error.contains("run by sh because of its `$`"), "{error}");
    fs::remove_file(pod.at("events")).unwrap();
    let (_, _, error) = end(&pod, &["sh", "-c", "exit 127"]);
    assert_eq!(error, "the command, or a program that it calls, was not found");
    let (code, _, without_shell) = end(&pod, &["/no/such/program", "$A"]);
    assert_eq!((code, without_shell), (127, error), "the command needs no shell");
}

#[test]
fn a_command_reads_an_empty_input() {
    let pod = Pod::new();
    pod.run(&pod.config(&["true"]));
    let calls = pod.read("flux-calls");
    assert!(calls.contains("run --flags=novalidate -n1 "), "the user's flags come later: {calls}");
    // A container with `stdin: true` to which no client attaches has such an input.
    let mut run = pod.prepared(&pod.launcher("cat; echo end"));
    run.stdin(Stdio::piped());
    let mut run = Background::start(run);
    let open = run.0.stdin.take();
    run.end().with_code(0).with_output("end\n");
    drop(open);
}

#[test]
fn a_failed_batch_shows_its_output_and_the_failed_lines() {
    let pod = Pod::new();
    let script = "echo \"job-0: echo hello\"; echo ƒaa; echo \"job-2: false -x\"; echo ƒab\n\
                  echo \"job-3: -n9x\"; echo 'flux submit: error: argument -n: invalid'\n\
                  echo \"job-3 was not submitted\"; echo '   ƒab flux     sh          F'\n\
                  echo hello > $FLUX_OUTPUT_DIR/job-0.out; echo broken > $FLUX_OUTPUT_DIR/job-2.err\n\
                  echo 'fab: task(s) exited with exit code 2' >&2; printf 'the last line'; exit 1\n";
    let mut config = pod.batch(script);
    config.logging.quiet = true;
    // A quiet run does not print the id of the job. A line without a line break is shown, too.
    let ended = pod.run(&config).with_code(1).with_output("").with_log("the last line\n");
    let failed = "job-2 failed: task(s) exited with exit code 2: false -x\nbroken\n";
    let log = ended.with_log(failed).with_log("job-3 failed: it was not submitted: -n9x\n").log;
    assert!(!log.contains("\nhello\n"), "only what failed is shown: {log}");
    let message = pod.message();
    let expected = "job-2 (false -x): task(s) exited with exit code 2; \
                    job-3 (-n9x): it was not submitted";
    assert_eq!((message.command_ran, message.last_error.as_deref()), (true, Some(expected)));
}

#[test]
fn an_unusable_output_directory_is_named_before_the_submission() {
    let pod = Pod::new();
    let mut config = pod.batch("true\n");
    config.hooks.pre = Some("rmdir $POD/outputs".to_owned());
    let ended = pod.run(&config).with_code(Exit::Prepare.code());
    ended.with_log("/outputs (logs): No such file");
    assert!(!pod.read("flux-calls").contains("flux batch"));
    assert!(!pod.message().command_ran);
    pod.error_says("logs");
}

#[test]
fn flux_cleans_up_only_if_jobs_may_be_left() {
    let pod = Pod::new();
    let hidden = ["sh", "-c", "test -z \"$FLUX_DISABLE_JOB_CLEANUP\""];
    assert_eq!(end(&pod, &hidden).0, 0, "instances within jobs have a cleanup of their own");
    let environment = pod.read("broker-environment");
    assert!(environment.contains("FLUX_DISABLE_JOB_CLEANUP=t\n"), "{environment}");
    assert!(!pod.at("cleanup").exists(), "no job is left");
    for answer in ["{\"active_jobs\":1}", "", "null"] {
        fs::write(pod.at("active-jobs"), answer).unwrap();
        assert_eq!(end(&pod, &["sh", "-c", "exit 3"]).0, 3);
        // The broker runs the last command first.
        let pushed: Value = serde_json::from_str(&pod.read("cleanup")).unwrap();
        let commands = pushed["commands"].as_array().unwrap().iter();
        let tasks: Vec<_> = commands.filter_map(|it| it.as_str()?.split(' ').nth(2)).collect();
        assert_eq!(tasks, ["idle", "--user=all", "stop"], "{answer:?}");
        fs::remove_file(pod.at("cleanup")).unwrap();
    }
}
