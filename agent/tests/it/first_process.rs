//! Nothing brings PID 1 down or makes it forget a duty: the real binary as the first process of a
//! process namespace, with closed outputs, orphans of every kind and brokers that hang.

use crate::pod::namespace::{FirstProcess, first_process, on_terminal};
use crate::pod::{closed_port, skip};
use crate::prelude::*;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

/// Shell text that ends when the file `$1` is there.
const AWAIT: &str = "await() { while [ ! -e \"$1\" ]; do sleep 0.02; done; }\n";

#[test]
fn thousands_of_orphans_are_reaped_whatever_ended_them() {
    // The kill(1) of every shell knows the number of a real-time signal.
    let killed = "for signal in 9 40 64 15; do
            sh -c \"sh -c 'kill -$signal \\$\\$' &\"
        done
        sh -c 'true &'";
    let thousands = "for i in $(seq 100); do
            sh -c 'for j in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do true & done'
        done";
    for leaves_orphans in [killed, thousands] {
        let pod = Pod::new();
        let script = format!("{AWAIT}{leaves_orphans}\ntouch $POD/orphaned\nawait $POD/done");
        let Some(run) = FirstProcess::run(&pod, &pod.launcher(&script)) else { return };
        pod.await_file("orphaned");
        await_that("every orphan is reaped", || run.zombies() == 0);
        let open = fs::read_dir(format!("/proc/{}/fd", run.pid())).unwrap().count();
        assert!(open < 40, "{open} files are open");
        fs::write(pod.at("done"), "").unwrap();
        run.end().with_code(0);
    }
}

/// A file that takes nothing.
fn full_device() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn a_log_that_takes_nothing_changes_nothing() {
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    let (_reader, mut full) = std::io::pipe().unwrap();
    fill(&mut full);
    let unread = || Stdio::from(full.try_clone().unwrap());
    for output in [&full_device as &dyn Fn() -> Stdio, &closed, &unread] {
        let pod = Pod::new();
        let mut config = pod.launcher("exit 7");
        config.hooks.post = Some("touch $POD/posted".to_owned());
        let Some(mut run) = first_process(&pod, &pod.prepared(&config)) else { return };
        let mut run = run.stdout(output()).stderr(output()).spawn().unwrap();
        await_that("the run ends", || run.try_wait().unwrap().is_some());
        assert_eq!(run.wait().unwrap().code(), Some(7));
        assert_eq!(pod.message().exit_code, 7);
        assert!(pod.at("posted").exists(), "the post hook ran");
        assert!(fs::exists(pod.layout().complete_marker()).unwrap());
    }
}

/// A control group of at most `limit` processes, and its directory; `None`, and a word why, where none can be made.
fn with_processes(limit: u32) -> Option<tempfile::TempDir> {
    let make = |parent: &str| {
        let group = tempfile::Builder::new().prefix("agent-").tempdir_in(parent).ok()?;
        fs::write(group.path().join("pids.max"), limit.to_string()).ok().map(|()| group)
    };
    let group = make("/sys/fs/cgroup/pids").or_else(|| make("/sys/fs/cgroup"));
    if group.is_none() {
        skip("no control group with a limit of processes can be made here");
    }
    group
}

#[test]
fn the_run_survives_a_command_with_all_processes() {
    const LIMIT: u32 = 40;
    let Some(group) = with_processes(LIMIT) else { return };
    let pod = Pod::new();
    let forks = format!("for i in $(seq {LIMIT}); do sleep 600 & done; wait");
    let mut config = pod.config(&["sh", "-c", &forks]);
    config.hooks.post = Some("touch $POD/posted".to_owned());
    let mut limited = Command::new("sh");
    limited.args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""]).arg(group.path());
    let run = pod.wrapped(limited, &pod.prepared(&config));
    let Some(run) = FirstProcess::start(&pod, &run) else { return };
    let ended = run.end();
    assert_ne!(ended.code, 0, "{}", ended.log);
    assert!(ended.log.to_lowercase().contains("fork"), "{}", ended.log);
    assert_eq!(pod.message().exit_code, ended.code);
    assert!(pod.at("posted").exists(), "{}", ended.log);
    await_that("the group is empty", || fs::remove_dir(group.path()).is_ok());
}

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
fn an_answer_that_cannot_be_written_is_an_error() {
    let pod = Pod::new();
    pod.write_config(&pod.config(&["true"]));
    for subcommand in ["plan", "resources", "env"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = Ended::of(pod.for_this_pod(subcommand).stdout(writer)).with_code(0);
        assert_eq!(ended.log, "", "{subcommand}");
        let ended = Ended::of(pod.for_this_pod(subcommand).stdout(full_device())).with_code(74);
        ended.with_log("write the answer: No space left");
    }
    assert!(pod.ask("plan", &[]).output.lines().count() > 5);
}

#[test]
fn a_command_has_the_terminal_to_itself() {
    let pod = Pod::new();
    let run = pod.prepared(&pod.launcher("read line; echo got $line"));
    let Some((run, terminal)) = on_terminal(&pod, &run) else { return };
    File::from(terminal.try_clone().unwrap()).write_all(b"hello\n").unwrap();
    run.end().with_code(0).with_output("got hello\n");
}

#[test]
fn a_restarted_broker_has_the_terminal() {
    let (pod, config, _lead) = worker_with_lead();
    // The fields of proc_pid_stat(5): its own process group, and the one that has the terminal.
    pod.broker_does(
        "until [ $(cut -d' ' -f5 /proc/self/stat) = $(cut -d' ' -f8 /proc/self/stat) ]
        do sleep 0.02; done
        [ -e $POD/second ] && end_with_lead; touch $POD/second; exit 1",
    );
    let Some((run, _terminal)) = on_terminal(&pod, &pod.prepared(&config)) else { return };
    run.end().with_code(0);
    assert!(pod.at("second").exists());
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

/// The startup probe and a readiness probe, while the broker waits for the file `go`.
#[test]
fn probes_that_wait_are_answered_before_the_run_ends() {
    for (then, code, line) in
        [("", 0, "HTTP/1.1 200 OK"), ("exit 3", 76, "HTTP/1.1 503 Service Unavailable")]
    {
        let (pod, port) = (Pod::new(), closed_port());
        pod.broker_does(&format!("{AWAIT}await $POD/go\n{then}"));
        let mut run = pod.prepared(&pod.launcher("true"));
        run.args(["--probe-port", &port.to_string()]);
        let Some(run) = FirstProcess::start(&pod, &run) else { return };
        pod.await_file("broker-pid");
        let probes = [probe(port), probe(port)];
        fs::write(pod.at("go"), "").unwrap();
        run.end().with_code(code);
        assert_eq!(probes.map(|answer| answer()), [line, line]);
    }
}

#[test]
fn the_run_goes_on_without_its_port() {
    let pod = Pod::new();
    let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut run = pod.prepared(&pod.launcher("true"));
    run.args(["--probe-port", &port]);
    let Some(mut run) = first_process(&pod, &run) else { return };
    let named = format!("listen at port {port}, where the kubelet asks whether this pod is ready");
    Ended::of(&mut run).with_code(0).with_log(&named);
}
