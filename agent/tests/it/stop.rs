//! A stop takes no longer than the pod's grace period, whatever does not want to end, and leaves a
//! termination message, the marker and the exit code: as PID 1.

use crate::archive;
use crate::pod::namespace::{FirstProcess, first_process};
use crate::prelude::*;
use flux_contract::{SidecarConfig, TerminationMessage};
use std::time::Instant;

/// Grace period of these pods, in seconds. Long enough to tell what ends in its own time from what is
/// ended with its share.
const GRACE: u64 = 4;

/// Shell text that ignores every signal that can be ignored, says so in `$POD/deaf`, and stays.
const DEAF: &str =
    "trap '' HUP INT QUIT TERM USR1 USR2; touch $POD/deaf; while :; do sleep 0.05; done";

/// `pod` with a command that takes for ever, and a grace period of [`GRACE`].
fn config(pod: &Pod) -> AgentConfig {
    with_grace(pod.config(&["sleep", "600"]))
}

fn with_grace(mut config: AgentConfig) -> AgentConfig {
    config.shutdown.grace_seconds = GRACE;
    config
}

/// Starts `config` as PID 1, waits for the file `until`, and asks it to stop: within the grace period, with a
/// message and the marker.
fn stop(pod: &Pod, config: &AgentConfig, until: &str) -> Option<Ended> {
    let run = FirstProcess::run(pod, config)?;
    pod.await_file(until);
    let ended = stop_in_time(pod, run);
    assert!(fs::exists(pod.layout().complete_marker()).unwrap(), "no marker: {}", ended.log);
    Some(ended)
}

/// Asks `run` to stop, which it does within the grace period and with a message.
fn stop_in_time(pod: &Pod, run: FirstProcess) -> Ended {
    let asked = Instant::now();
    run.signal(Signal::SIGTERM);
    let ended = run.end();
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(GRACE), "{took:?}: {}", ended.log);
    assert_eq!(pod.message().exit_code, ended.code, "{}", ended.log);
    ended
}

#[test]
fn a_deaf_broker_is_killed_before_the_post_hook() {
    let pod = Pod::new();
    pod.broker_does(DEAF);
    let mut config = config(&pod);
    config.hooks.post = Some("sleep 0.2; echo post".to_owned());
    let Some(ended) = stop(&pod, &config, "deaf") else { return };
    let ended = ended.with_code(stopped()).with_output("post\n");
    ended.with_log("the broker has not ended in its time: killing it");
    pod.error_says("SIGTERM");
}

#[test]
fn a_killed_run_has_left_a_message() {
    let pod = Pod::new();
    pod.broker_does(DEAF);
    let config = pod.config(&["sleep", "600"]);
    let Some(run) = FirstProcess::run(&pod, &config) else { return };
    pod.await_file("deaf");
    run.signal(Signal::SIGTERM);
    let left = || fs::read_to_string(pod.at("dev/termination-log")).unwrap_or_default();
    await_that("a message is left", || TerminationMessage::from_json(&left()).is_some());
    run.signal(Signal::SIGKILL);
    drop(run);
    pod.error_says("the grace period was too short");
    let message = pod.message();
    assert!(message.exit_code == stopped() && !message.phases.is_empty(), "{message:?}");
}

#[test]
fn a_deaf_post_hook_is_killed_in_time() {
    let pod = Pod::new();
    let mut config = config(&pod);
    config.hooks.post = Some(format!("echo begun; {DEAF}"));
    let Some(ended) = stop(&pod, &config, "broker-pid") else { return };
    let ended = ended.with_output("begun\n");
    ended.with_log("takes longer than the pod's grace period leaves it");
}

#[test]
fn a_stop_does_not_end_the_post_hook() {
    let pod = Pod::new();
    let mut config = with_grace(pod.config(&["true"]));
    let post = "touch $POD/post; while [ ! -e $POD/go-on ]; do sleep 0.02; done; echo saved";
    config.hooks.post = Some(post.to_owned());
    let Some(run) = FirstProcess::run(&pod, &config) else { return };
    pod.await_file("post");
    run.signal(Signal::SIGTERM);
    run.signal(Signal::SIGINT);
    fs::write(pod.at("go-on"), "").unwrap();
    run.end().with_code(0).with_output("saved\n");
}

#[test]
fn a_broker_that_hangs_after_its_command_is_killed() {
    let pod = Pod::new();
    // Flux 0.88 may stay so where its rc3 has failed.
    let socket = pod.layout().local_socket();
    pod.broker_ends_with(&format!("rm {socket}; {DEAF}"));
    let ended = pod.start(&with_grace(pod.config(&["true"]))).end().with_code(0);
    ended.with_log("the broker has not ended in its time: killing it");
    pod.error_says("after the command had ended with 0");
}

#[test]
fn a_dump_that_hangs_leaves_the_archive_as_it_was() {
    let (pod, archive) = archive::pod_with_archive(b"");
    // Ends its program at SIGTERM, as Flux does, then writes half a dump and hangs.
    pod.broker_does(
        "for word; do case \"$word\" in -o-Scontent.dump=*) to=\"${word#-o-Scontent.dump=}\" ;; esac; done
        dump() { trap '' TERM; printf half > \"$to\"; while :; do sleep 0.05; done; }
        trap dump TERM; touch $POD/running; while :; do sleep 0.05; done",
    );
    broker_in_state(pod.layout().local_socket(), "run");
    let config = with_grace(archive::config(&pod, &["sleep", "600"], &archive));
    let Some(ended) = stop(&pod, &config, "running") else { return };
    ended.with_log("as it was");
    assert_eq!(fs::read_to_string(&archive).unwrap(), "before");
    assert_eq!(fs::read_dir(pod.at("state")).unwrap().count(), 1, "nothing lies beside it");
}

#[test]
fn a_deaf_hook_is_killed_with_its_group() {
    let pod = Pod::new();
    let mut config = config(&pod);
    config.hooks.pre = Some(DEAF.to_owned());
    let Some(ended) = stop(&pod, &config, "deaf") else { return };
    ended.with_code(stopped());
    assert!(!pod.at("broker-pid").exists(), "no broker after that");
}

#[test]
fn a_deaf_launcher_is_killed_before_the_cleanup() {
    let pod = Pod::new();
    let config = with_grace(pod.launcher(DEAF));
    let Some(ended) = stop(&pod, &config, "deaf") else { return };
    // Its end is the stop's, and no failure of the command's own.
    let ended = ended.with_code(stopped()).with_log("the command has not ended in its time");
    ended.with_log("it then ended with exit code 137");
    assert!(pod.at("cleaned-up").exists());
    assert_eq!(pod.message().signal, Some(9));
}

/// Shell text that at SIGTERM says `$1` when `$POD/go-on` is there, and ends.
const SAVES: &str = "trap 'touch $POD/asked-$1
    while [ ! -e $POD/go-on ]; do sleep 0.02; done; echo $1; exit 4' TERM
    touch $POD/ready-$1; while :; do sleep 0.02; done";

/// Asks a run to stop whose command is `script`, once each of `all` is ready; lets them go on once each has been
/// asked to end.
fn stop_command(script: &str, all: &[&str]) -> Option<Ended> {
    let pod = Pod::new();
    fs::write(pod.at("saves"), SAVES).unwrap();
    let run = FirstProcess::run(&pod, &pod.launcher(script))?;
    for name in all {
        pod.await_file(&format!("ready-{name}"));
    }
    run.signal(Signal::SIGTERM);
    for name in all {
        pod.await_file(&format!("asked-{name}"));
    }
    fs::write(pod.at("go-on"), "").unwrap();
    let ended = run.end().with_code(stopped());
    assert!(pod.at("cleaned-up").exists(), "{ended:?}");
    Some(ended)
}

#[test]
fn a_launchers_group_has_time_to_save_after_sigterm() {
    let script = "sh $POD/saves child & set -- parent; . $POD/saves";
    let Some(ended) = stop_command(script, &["child", "parent"]) else { return };
    let mut lines: Vec<_> = ended.output.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["child", "parent"], "{}", ended.log);
    ended.with_log("it then ended with exit code 4");
}

#[test]
fn children_of_a_shell_have_time_to_save() {
    let stopped = stop_command("sh $POD/saves child; echo b", &["child"]);
    stopped.map(|ended| ended.with_output("child\n"));
}

#[test]
fn a_deaf_sidecar_is_killed_before_its_post_hook() {
    let pod = Pod::new();
    let sidecar = SidecarConfig { post: Some("echo post".to_owned()), ..sidecar(DEAF) };
    let command = pod.beside(config(&pod), sidecar);
    let Some(run) = FirstProcess::start(&pod, &command) else { return };
    pod.await_file("deaf");
    stop_in_time(&pod, run).with_code(137).with_output("post\n");
}

#[test]
fn a_sidecar_has_the_grace_period_after_its_runner() {
    let pod = Pod::new();
    let run = Background::start(pod.beside(config(&pod), sidecar(DEAF)));
    pod.await_file("deaf");
    let asked = Instant::now();
    fs::write(pod.layout().complete_marker(), "").unwrap();
    let ended = run.end().with_code(0);
    // The marker is looked for five times a second.
    assert!(asked.elapsed() < Duration::from_secs(GRACE + 1), "{}", ended.log);
    ended.with_log("the command has not ended in its time");
}

#[test]
fn a_run_ends_in_order_at_its_deadline() {
    let pod = Pod::new();
    let saves = "trap 'echo saved; exit 0' TERM; while :; do sleep 0.02; done";
    let mut config = with_grace(pod.launcher(saves));
    config.shutdown.deadline_seconds = Some(1);
    config.hooks.post = Some("echo post".to_owned());
    let Some(mut run) = first_process(&pod, &pod.prepared(&config)) else { return };
    Ended::of(&mut run).with_code(Exit::Deadline.code()).with_output("saved\npost\n");
    assert!(!pod.message().command_ran);
    pod.error_says("the deadline of 1 seconds has passed");
    pod.error_says("it then ended with exit code 0");
}

#[test]
fn a_deadline_ends_a_hook_and_workers_have_none() {
    let mut pod = Pod::new();
    let mut config = config(&pod);
    config.shutdown.deadline_seconds = Some(1);
    config.hooks.pre = Some("sleep 600".to_owned());
    pod.run(&config).with_code(Exit::Deadline.code());
    assert!(!pod.at("broker-pid").exists());
    pod.hostname = "hello-1".to_owned();
    let plan = pod.ask("plan", &[]).output;
    assert!(!plan.contains("end the run"), "{plan}");
}

/// Shell text of a worker's broker that dies at once the first time, as if killed for its memory: it leaves the shell
/// of a job in a group of its own, which has a task. Both show `$POD/job` in their command lines.
const LEAVES_A_JOB: &str = r#"
while [ ! -e $POD/daemon-child ] || [ ! -e $POD/other-child ]; do sleep 0.02; done
[ -e $POD/job.up ] && { touch $POD/second-runs; while [ ! -e $POD/over ]; do sleep 0.02; done; end_with_lead; }
task='touch $0.up; while :; do sleep 0.05; done'
setsid sh -c 'sh -c "$1" $0 & wait' $POD/job "$task" &
while [ ! -e $POD/job.up ]; do sleep 0.02; done
kill -KILL $$
"#;

#[test]
fn orphans_of_a_broker_are_killed_and_daemons_stay() {
    let (pod, mut config, _lead) = worker_with_lead();
    pod.broker_does(LEAVES_A_JOB);
    // Two daemons: one with a session of its own, and one in the process group of its hook. Once the broker
    // runs, each starts a process and leaves it to PID 1.
    fs::write(
        pod.at("daemon-of"),
        "touch $1.up; while [ ! -e $POD/broker-pid ]; do sleep 0.02; done
        sh -c 'sh -c \"touch \\$0; while :; do sleep 0.05; done\" $0 &' $1-child
        while :; do sleep 0.05; done",
    )
    .unwrap();
    let daemon = "setsid sh $POD/daemon-of $POD/daemon >/dev/null 2>&1 &
        sh $POD/daemon-of $POD/other >/dev/null 2>&1 &
        while [ ! -e $POD/daemon.up ] || [ ! -e $POD/other.up ]; do sleep 0.02; done";
    config.hooks.pre = Some(daemon.to_owned());
    let Some(run) = FirstProcess::run(&pod, &config) else { return };
    pod.await_file("second-runs");
    let commands = |name: &str| {
        let argument = pod.at(name).display().to_string();
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let lines = processes.filter_map(|path| fs::read_to_string(path.join("cmdline")).ok());
        lines.filter(|line| line.split('\0').any(|word| word == argument)).count()
    };
    // A process that was forked a moment ago still has the command line of its parent.
    await_that("the daemons alone run on", || {
        let all = ["job", "daemon", "other", "daemon-child", "other-child"].map(commands);
        all == [0, 1, 1, 1, 1]
    });
    fs::write(pod.at("over"), "").unwrap();
    run.end().with_code(0).with_log("processes that the broker had left behind");
}
