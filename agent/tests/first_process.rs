//! Nothing brings PID 1 down or makes it forget a duty: the real binary as the first process of a
//! process namespace, with closed outputs, orphans of every kind and brokers that hang.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod pod;
mod support;

use flux_contract::AgentConfig;
use pod::namespace::{FirstProcess, first_process, on_terminal};
use pod::{Pod, code, stderr, stdout};
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
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
fn a_command_has_the_terminal_to_itself() {
    let pod = Pod::new();
    let run = pod.prepared(&pod.launcher("read line; echo got $line"));
    let Some((run, terminal)) = on_terminal(&pod, &run) else { return };
    File::from(terminal.try_clone().unwrap()).write_all(b"hello\n").unwrap();
    let (code, output, error) = run.end();
    assert_eq!((code, output.as_str()), (0, "got hello\n"), "{error}");
}

#[test]
fn a_broker_that_is_started_again_has_the_terminal_as_the_first_had() {
    let pod = Pod::called("hello-1");
    // The fields of proc_pid_stat(5): its own process group, and the one that has the terminal.
    pod.broker_does(
        "until [ $(cut -d' ' -f5 /proc/self/stat) = $(cut -d' ' -f8 /proc/self/stat) ]
        do sleep 0.02; done
        [ -e $POD/second ] && exit 0; touch $POD/second; exit 1",
    );
    let (_lead, port) = support::lead(&pod::certificate());
    let mut config = pod.config(&["true"]);
    config.network.port = port;
    let Some((run, _terminal)) = on_terminal(&pod, &pod.prepared(&config)) else { return };
    let (code, _, error) = run.end();
    assert_eq!(code, 0, "{error}");
    assert!(pod.at("second").exists(), "{error}");
}

/// Asks at `port` whether the pod is ready, as the kubelet does; the status line is read later.
fn probe(port: u16) -> impl FnOnce() -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.write_all(b"GET /ready?wait=60 HTTP/1.1\r\nHost: pod\r\n\r\n").unwrap();
    move || {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    }
}

/// A run whose broker waits for the file `go` and then does what `then` says, while the startup probe and a
/// readiness probe wait: the code, and what the probes were answered.
fn run_and_probe(then: &str) -> Option<(i32, [String; 2])> {
    let pod = Pod::new();
    pod.broker_does(&format!("{AWAIT}await $POD/go\n{then}"));
    let port = pod::closed_port();
    let mut run = pod.prepared(&pod.launcher("true"));
    run.args(["--probe-port", &port.to_string()]);
    let run = FirstProcess::start(&pod, &run)?;
    pod.await_file("broker-pid");
    let probes = [probe(port), probe(port)];
    fs::write(pod.at("go"), "").unwrap();
    let (code, _, _) = run.end();
    Some((code, probes.map(|answer| answer())))
}

#[test]
fn probes_that_wait_are_answered_before_the_run_ends() {
    for (then, code, line) in
        [("", 0, "HTTP/1.1 200 OK"), ("exit 3", 76, "HTTP/1.1 503 Service Unavailable")]
    {
        let Some(answered) = run_and_probe(then) else { return };
        assert_eq!(answered, (code, [line.to_owned(), line.to_owned()]));
    }
}

#[test]
fn a_port_that_another_program_has_is_named_and_the_run_goes_on() {
    let pod = Pod::new();
    let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut run = pod.prepared(&pod.launcher("true"));
    run.args(["--probe-port", &port]);
    let Some(mut run) = first_process(&pod, &run) else { return };
    let output = run.output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let named = format!("listen at port {port}, where the kubelet asks whether this pod is ready");
    assert!(stderr(&output).contains(&named), "{}", stderr(&output));
}
