//! Nothing brings PID 1 down or makes it forget a duty: the real binary as the first process of a
//! process namespace, with closed outputs, orphans of every kind and brokers that hang.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod pod;
mod support;

use flux_contract::AgentConfig;
use nix::sys::signal::Signal;
use pod::namespace::{FirstProcess, first_process};
use pod::{Background, Pod, code, stderr, stdout};
use std::fs::{self, File, OpenOptions};
use std::process::Stdio;

/// Shell text that ends when the file `$1` is there.
const AWAIT: &str = "await() { while [ ! -e \"$1\" ]; do sleep 0.02; done; }\n";

/// Runs the shell text `script`, which leaves orphans, as the command; looks `at` the run when none is left.
fn orphans_are_reaped(script: &str, at: impl FnOnce(&FirstProcess)) {
    let pod = Pod::new();
    let script = format!("{AWAIT}{script}\ntouch $POD/orphaned\nawait $POD/done");
    let run = pod.prepared(&pod.launcher(&script));
    let Some(run) = FirstProcess::start(&pod, &run) else { return };
    pod.await_file("orphaned");
    pod::await_that("every orphan is reaped", || run.zombies() == 0);
    at(&run);
    fs::write(pod.at("done"), "").unwrap();
    let (code, _, error) = run.end();
    assert_eq!(code, 0, "{error}");
}

#[test]
fn orphans_are_reaped_whatever_ended_them() {
    // The kill(1) of every shell knows the number of a real-time signal.
    let script = "for signal in 9 40 64 15; do
            sh -c \"sh -c 'kill -$signal \\$\\$' &\"
        done
        sh -c 'true &'";
    orphans_are_reaped(script, |_| ());
}

#[test]
fn thousands_of_orphans_leave_nothing_behind() {
    let script = "for i in $(seq 100); do
            sh -c 'for j in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do true & done'
        done";
    orphans_are_reaped(script, |run| {
        let open = fs::read_dir(format!("/proc/{}/fd", run.pid())).unwrap().count();
        assert!(open < 40, "{open} files are open");
    });
}

/// A run that ends with 7 and leaves message and marker.
fn ends_with_7(pod: &Pod) -> AgentConfig {
    let mut config = pod.launcher("exit 7");
    config.hooks.post = Some("touch $POD/posted".to_owned());
    config
}

fn assert_all_is_done(pod: &Pod, code: Option<i32>) {
    assert_eq!(code, Some(7));
    assert_eq!(pod.message().exit_code, 7);
    assert!(pod.at("posted").exists(), "the post hook ran");
    assert!(pod.layout().complete_marker().exists());
}

#[test]
fn a_log_that_takes_nothing_changes_nothing() {
    let full = || Stdio::from(OpenOptions::new().write(true).open("/dev/full").unwrap());
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    for output in [full, closed] {
        let pod = Pod::new();
        let run = pod.prepared(&ends_with_7(&pod));
        let Some(mut run) = first_process(&pod, &run) else { return };
        let ended = run.stdout(output()).stderr(output()).status().unwrap();
        assert_all_is_done(&pod, ended.code());
    }
}

#[test]
fn a_log_that_nobody_reads_holds_up_nothing() {
    let pod = Pod::new();
    let (_reader, mut writer) = std::io::pipe().unwrap();
    fill(&mut writer);
    let run = pod.prepared(&ends_with_7(&pod));
    let Some(mut run) = first_process(&pod, &run) else { return };
    let mut run = run.stdout(Stdio::null()).stderr(writer).spawn().unwrap();
    let mut ended = None;
    pod::await_that("the run ends", || {
        ended = run.try_wait().unwrap();
        ended.is_some()
    });
    assert_all_is_done(&pod, ended.unwrap().code());
}

/// Fills the pipe behind `writer`.
fn fill(writer: &mut std::io::PipeWriter) {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use std::io::Write;
    fcntl(&*writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    for size in [4096, 1] {
        while writer.write(&vec![b'x'; size]).is_ok() {}
    }
    fcntl(&*writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
}

#[test]
fn an_answer_that_nobody_takes_ends_quietly_and_one_that_cannot_be_written_is_an_error() {
    let pod = Pod::new();
    pod.write_config(&pod.config(&["true"]));
    let subcommands = ["plan", "resources", "env"];
    for subcommand in subcommands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = pod.for_this_pod(subcommand).stdout(writer).output().unwrap();
        assert_eq!((code(&output), stderr(&output).as_str()), (0, ""), "{subcommand}");
        let full: File = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = pod.for_this_pod(subcommand).stdout(full).output().unwrap();
        assert_eq!(code(&output), 74, "{subcommand}: {}", stderr(&output));
        assert!(stderr(&output).contains("write the answer: No space left"), "{}", stderr(&output));
    }
    assert!(stdout(&pod.for_this_pod("plan").output().unwrap()).lines().count() > 5);
}

#[test]
fn a_child_that_is_killed_takes_nothing_with_it() {
    let pod = Pod::new();
    pod.broker_does("kill -9 $$");
    let run = pod.prepared(&pod.config(&["true"]));
    let Some(mut run) = first_process(&pod, &run) else { return };
    let output = run.output().unwrap();
    assert_eq!(code(&output), 76, "{}", stderr(&output));
    let message = pod.message().last_error.unwrap();
    assert!(message.contains(&(128 + Signal::SIGKILL as i32).to_string()), "{message}");
}

/// Starts a run whose broker waits for the file `go` and then does what `then` says, with a readiness
/// probe that waits for it; code and complaints of run and probe.
fn run_and_probe(then: &str) -> Option<[(i32, String); 2]> {
    let pod = Pod::new();
    pod.broker_does(&format!("{AWAIT}await $POD/go\n{then}"));
    let run = FirstProcess::start(&pod, &pod.prepared(&pod.launcher("true")))?;
    pod.await_file("broker-pid");
    let mut ready = pod.for_this_pod("ready");
    ready.args(["--timeout", "60"]);
    let probe = Background::start(run.entered(&pod, &ready));
    pod::await_that("the probe has entered", || {
        run.processes().iter().filter(|(name, _)| name == "flux-agent").count() == 2
    });
    fs::write(pod.at("go"), "").unwrap();
    let (code, _, error) = run.end();
    let (answer, _, complaint) = probe.end();
    Some([(code, error), (answer, complaint)])
}

#[test]
fn a_probe_that_waits_is_answered_before_the_run_ends() {
    let Some([(code, error), (answer, complaint)]) = run_and_probe("") else { return };
    assert_eq!((code, answer), (0, 0), "{error}{complaint}");
    let Some([(code, error), (answer, complaint)]) = run_and_probe("exit 3") else { return };
    assert_eq!((code, answer), (76, 1), "{error}");
    assert!(complaint.contains("the broker ended with exit code 3"), "{complaint}");
}

#[test]
fn a_worker_that_starts_its_broker_again_and_again_leaves_a_message_that_can_be_read() {
    let pod = Pod::called("hello-1");
    pod.broker_does("echo >> $POD/starts; [ $(wc -l < $POD/starts) -lt 4 ] || exit 0; exit 1");
    let (_lead, port) = support::lead(&pod::certificate());
    let mut config = pod.config(&["true"]);
    config.network.port = port;
    let Some(mut run) = first_process(&pod, &pod.prepared(&config)) else { return };
    let output = run.output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let message = pod.message();
    assert_eq!(message.restarts, 3);
    let names: Vec<&str> = message.phases.iter().map(|phase| phase.name.as_str()).collect();
    let expected = ["prepare", "wait-for-lead", "quorum", "wait-for-lead", "quorum", "post"];
    assert_eq!(names, expected, "the first start and the last");
}
