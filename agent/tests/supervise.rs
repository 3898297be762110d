//! What a first process owes its pod, each duty on the real binary.

mod pod;
mod support;

use flux_contract::{Exit, SidecarConfig, WorkerPolicy, Workload};
use nix::sys::signal::Signal;
use pod::broker::broker_in_state;
use pod::{
    Background, PATIENCE, Pod, await_that, closed_port, code, sidecar, stderr, stdout, stopped,
};
use std::fs;
use std::time::Instant;

/// Shell text of a program that notes the signals it gets and ends with 3 at SIGTERM.
const NOTES_SIGNALS: &str = "
for name in HUP INT QUIT USR1 USR2; do trap \"echo $name >> $POD/signals\" $name; done
trap 'echo TERM >> $POD/signals; exit 3' TERM
touch $POD/trapped
while :; do sleep 0.02; done
";

/// Sends each signal to `run`, whose program notes what it gets under that name.
fn all_are_noted(pod: &Pod, run: &Background, signals: &[(Signal, &str)]) {
    let mut seen = String::new();
    for (signal, name) in signals {
        run.signal(*signal);
        seen.push_str(name);
        await_that(name, || fs::read_to_string(pod.at("signals")).is_ok_and(|text| text == seen));
    }
}

#[test]
fn every_signal_is_passed_on_to_the_broker_and_only_term_ends_this_one() {
    let pod = Pod::new();
    pod.broker_does(NOTES_SIGNALS);
    let run = Background::start(pod.prepared(&pod.config(&["true"])));
    pod.await_file("trapped");
    let signals = [
        (Signal::SIGUSR1, "USR1\n"),
        (Signal::SIGUSR2, "USR2\n"),
        (Signal::SIGHUP, "HUP\n"),
        (Signal::SIGINT, "INT\n"),
        (Signal::SIGQUIT, "QUIT\n"),
        (Signal::SIGTERM, "TERM\n"),
    ];
    all_are_noted(&pod, &run, &signals);
    let (code, _, error) = run.end();
    assert_eq!(code, stopped(), "{error}");
    assert!(pod.message().last_error.unwrap().contains("SIGTERM"));
}

#[test]
fn a_signal_during_a_hook_ends_hook_and_run_at_once_and_the_post_hook_runs() {
    let pod = Pod::new();
    let mut config = pod.config(&["touch", "ran"]);
    config.hooks.pre =
        Some("sleep 600 & echo $! > sleeping.new; mv sleeping.new sleeping; wait".to_owned());
    config.hooks.post = Some("echo post".to_owned());
    let run = Background::start(pod.prepared(&config));
    let sleeping = pod.await_file("work/sleeping");
    let started = Instant::now();
    run.signal(Signal::SIGTERM);
    let (code, output, error) = run.end();
    assert_eq!((code, output.as_str()), (stopped(), "post\n"), "{error}");
    assert!(started.elapsed() < PATIENCE / 2);
    let process = format!("/proc/{}/stat", sleeping.trim());
    await_that("what the hook started is gone", || {
        fs::read_to_string(&process).map_or(true, |stat| stat.contains(") Z "))
    });
    assert!(!pod.at("work/ran").exists());
}

#[test]
fn a_worker_that_waits_for_the_lead_ends_at_once_when_told_to() {
    let (pod, config) = Pod::worker(closed_port());
    let run = Background::start(pod.prepared(&config));
    let status = || {
        let output = pod.for_this_pod("status").args(["--output", "json"]).output().unwrap();
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap_or_default()
    };
    await_that("the status says what is in the way", || {
        status()["lastError"].as_str().is_some_and(|error| error.contains("connection refused"))
    });
    assert_eq!(status()["phase"], "wait-for-lead");
    assert_eq!(status()["role"], "worker");
    run.signal(Signal::SIGTERM);
    let (code, _, error) = run.end();
    assert_eq!(code, stopped(), "{error}");
    assert!(!pod.at("broker-pid").exists(), "no broker before the lead answers");
}

#[test]
fn a_worker_gives_up_at_its_deadline_and_says_what_it_saw() {
    let (pod, mut config) = Pod::worker(closed_port());
    config.network.lead_deadline_seconds = 0;
    let output = pod.run(&config);
    assert_eq!(code(&output), i32::from(Exit::LeadUnreachable.code()), "{}", stderr(&output));
    assert!(pod.message().last_error.unwrap().contains("connection refused"));
}

/// A lead of two whose broker says that it is in `state`, and that then is to wait for itself alone. How many
/// brokers it has started, and what it said.
#[expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
fn with_a_smaller_quorum(state: &'static str) -> (usize, String) {
    let pod = Pod::new();
    broker_in_state(&pod.layout().local_socket(), state);
    pod.broker_does(
        "echo begun >> $POD/begun
        case \"$*\" in *broker.quorum=1*) exit 0 ;; esac
        while [ ! -e $POD/done ]; do sleep 0.02; done",
    );
    let command = "touch $POD/started; while [ ! -e $POD/done ]; do sleep 0.02; done";
    let mut config = pod.config(&["sh", "-c", command]);
    config.network.port = closed_port();
    let run = Background::start(pod.prepared(&config));
    pod.await_file(if state == "quorum" { "begun" } else { "started" });
    config.broker.quorum = Some(1);
    pod.write_config(&config);
    if state != "quorum" {
        fs::write(pod.at("done"), "").unwrap();
    }
    let (_, output, error) = run.end();
    (pod.read("begun").lines().count(), output + &error)
}

#[test]
fn a_lead_whose_quorum_becomes_smaller_waits_for_no_more() {
    let (begun, said) = with_a_smaller_quorum("quorum");
    assert_eq!(begun, 2, "{said}");
    assert!(said.contains("1 brokers are enough now"), "{said}");
}

#[test]
fn a_lead_that_runs_goes_on_when_its_quorum_becomes_smaller() {
    let (begun, said) = with_a_smaller_quorum("run");
    assert_eq!(begun, 1, "{said}");
}

#[test]
fn the_command_starts_with_no_signal_blocked_or_ignored() {
    let pod = Pod::new();
    let output = pod.run(&pod.launcher("grep -E 'Sig(Blk|Ign)' /proc/self/status"));
    let text = stdout(&output);
    let mask = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(value.trim_start_matches(':').trim(), 16).unwrap()
    };
    // The real-time signals above 31 are whatever this test was started with.
    let ordinary = (1 << 31) - 1;
    assert_eq!((mask("SigBlk"), mask("SigIgn") & ordinary), (0, 0), "{}", stderr(&output));
}

#[test]
fn broker_and_command_lead_process_groups_of_their_own() {
    let pod = Pod::new();
    pod.broker_does("cut -d' ' -f5 /proc/self/stat");
    let script = "cat $POD/broker-pid; echo $$; cut -d' ' -f5 /proc/self/stat";
    let output = stdout(&pod.run(&pod.launcher(script)));
    let [group_of_broker, broker, command, group_of_command] =
        output.lines().collect::<Vec<_>>()[..]
    else {
        panic!("{output}")
    };
    assert_eq!((group_of_broker, group_of_command), (broker, command));
}

#[test]
fn a_worker_starts_its_broker_again_after_a_failure_and_leaves_when_the_instance_ends() {
    let (_lead, port) = support::lead(&pod::certificate());
    let (pod, mut config) = Pod::worker(port);
    pod.broker_does("echo >> $POD/starts; [ $(wc -l < $POD/starts) -lt 4 ] || exit 0; exit 1");
    let output = pod.run(&config);
    let error = stderr(&output);
    assert_eq!(code(&output), 0, "{error}");
    assert!(error.contains("ended with exit code 1; starting it again in 0.5 s"), "{error}");
    assert_eq!(pod.read("flux-calls").matches("flux start").count(), 4);
    assert_eq!(error.matches("the lead broker answers").count(), 4, "{error}");
    let message = pod.message();
    let names: Vec<&str> = message.phases.iter().map(|phase| phase.name.as_str()).collect();
    let expected = ["prepare", "wait-for-lead", "quorum", "wait-for-lead", "quorum", "post"];
    assert_eq!((message.restarts, &names[..]), (3, &expected[..]), "the first start and the last");
    config.worker = WorkerPolicy::LeaveAlways;
    pod.broker_does("exit 1");
    assert_eq!(code(&pod.run(&config)), 0);
}

#[test]
fn the_lead_is_ready_from_the_start_of_the_command_on() {
    let pod = Pod::new();
    pod.broker_does("while [ ! -e $POD/quorum ]; do sleep 0.02; done");
    let run = Background::start(
        pod.prepared(&pod.launcher("while [ ! -e $POD/done ]; do sleep 0.02; done; exit 5")),
    );
    let ready = || pod.for_this_pod("ready").output().unwrap();
    pod.await_file("broker-pid");
    let early = ready();
    assert_eq!(code(&early), 1);
    assert!(stderr(&early).contains("not ready: quorum"), "{}", stderr(&early));
    fs::write(pod.at("quorum"), "").unwrap();
    await_that("the lead is ready", || code(&ready()) == 0);
    assert_eq!(code(&pod.for_this_pod("wait").arg("broker").output().unwrap()), 0);
    fs::write(pod.at("done"), "").unwrap();
    assert_eq!(run.end().0, 5);
    assert_eq!(code(&ready()), 1, "nobody answers any more");
    assert_eq!(code(&pod.for_this_pod("wait").arg("complete").output().unwrap()), 0);
}

#[test]
fn an_interactive_lead_submits_the_command_once_and_stays_until_it_is_shut_down() {
    let pod = Pod::new();
    let mut config = pod.config(&["sh", "-c", "echo $FLUX_URI"]);
    let Workload::Submit { submission } = config.workload else { panic!() };
    config.workload = Workload::Interactive { submission: Some(submission) };
    broker_in_state(&pod.layout().local_socket(), "run");
    pod.broker_does("while [ ! -e $POD/shutdown ]; do sleep 0.02; done; exit 0");
    let run = Background::start(pod.prepared(&config));
    await_that("the command is submitted", || {
        fs::read_to_string(pod.at("flux-calls")).is_ok_and(|calls| calls.contains("flux submit"))
    });
    await_that("the lead is ready", || code(&pod.for_this_pod("ready").output().unwrap()) == 0);
    let for_ever = u64::MAX.to_string();
    let ready = pod.for_this_pod("ready").args(["--timeout", &for_ever]).output().unwrap();
    assert_eq!(code(&ready), 0, "{}", stderr(&ready));
    fs::write(pod.at("shutdown"), "").unwrap();
    let (code, output, error) = run.end();
    assert_eq!(code, 0, "{error}");
    let entrance = "to enter it: kubectl exec -it -n apps job/hello -c hello -- ";
    assert_eq!(error.matches(entrance).count(), 1, "{error}");
    assert_eq!(output, format!("{}\n", pod.layout().local_uri()));
    let calls = pod.read("flux-calls");
    assert!(calls.contains("-Sbroker.rc2_none") && calls.matches("flux submit").count() == 1);
}

#[test]
fn diagnostics_ask_everything_whatever_fails_and_stay_until_told_to_end() {
    let pod = Pod::new();
    pod.write_executable(
        "flux",
        "#!/bin/sh\necho asked: \"$@\"\n[ \"$1\" != overlay ] || { echo no answer >&2; exit 1; }\n",
    );
    let flux = pod.at("flux").display().to_string();
    let mut command = pod.agent(&["diagnose", "--flux", &flux]);
    let log = pod.at("log");
    command.stdout(fs::File::create(&log).unwrap());
    let mut run = Background(command.spawn().unwrap());
    let said = || fs::read_to_string(&log).unwrap();
    await_that("all is said", || said().contains("stays up"));
    assert!(run.0.try_wait().unwrap().is_none(), "it stays up");
    run.signal(Signal::SIGHUP);
    assert_eq!(run.0.wait().unwrap().code(), Some(stopped()));
    let text = said();
    assert_eq!(text.matches("== failed: exit status: 1").count(), 2, "{text}");
    assert_eq!(
        text.matches("no answer\n== failed").count(),
        2,
        "errors stand in their place: {text}"
    );
    for (_, arguments) in flux_agent::program::QUESTIONS {
        assert!(text.contains(&format!("asked: {}", arguments.join(" "))), "{text}");
    }
}

#[test]
fn a_command_gets_its_users_signals_as_they_are_and_sigterm_for_any_that_asks_for_an_end() {
    let pod = Pod::new();
    let run = Background::start(pod.prepared(&pod.launcher(NOTES_SIGNALS)));
    pod.await_file("trapped");
    let signals =
        [(Signal::SIGUSR1, "USR1\n"), (Signal::SIGUSR2, "USR2\n"), (Signal::SIGINT, "TERM\n")];
    all_are_noted(&pod, &run, &signals);
    let (code, _, error) = run.end();
    assert_eq!(code, stopped(), "{error}");
    assert!(error.contains("told to stop, it ended with exit code 3"), "{error}");
    assert!(pod.at("cleaned-up").exists(), "{error}");
}

#[test]
fn a_broker_that_is_killed_takes_its_command_with_it_and_the_run_ends_with_its_code() {
    let pod = Pod::new();
    let run = Background::start(pod.prepared(&pod.launcher(
        "trap 'touch $POD/asked' TERM; kill -9 $(cat $POD/broker-pid); while :; do sleep 0.02; done",
    )));
    let (code, _, error) = run.end();
    assert_eq!(code, 137, "{error}");
    let message = pod.message();
    assert!(message.command_ran && message.last_error.unwrap().contains("exit code 137"));
    assert!(!pod.at("asked").exists(), "{error}");
}

#[test]
fn an_instance_that_is_shut_down_asks_its_command_to_end_and_the_code_is_the_commands() {
    let pod = Pod::new();
    // As `flux shutdown` does: the broker leaves state `run` and waits for nobody.
    let script = "trap 'echo saved; exit 4' TERM; kill -TERM $(cat $POD/broker-pid)
        while :; do sleep 0.02; done";
    let run = Background::start(pod.prepared(&pod.launcher(script)));
    let (code, output, error) = run.end();
    assert_eq!((code, output.as_str()), (4, "saved\n"), "{error}");
    assert!(pod.message().command_ran);
}

/// A sidecar without hooks, whose command begins when there is a broker.
fn waiting(command: &str) -> SidecarConfig {
    SidecarConfig { wait_for_socket: true, ..sidecar(command) }
}

/// Runs `sidecar` in `pod`.
fn beside(pod: &Pod, sidecar: SidecarConfig) -> Background {
    Background::start(pod.beside(pod.config(&["true"]), sidecar))
}

/// Output and complaints of a sidecar that ends well because its runner has finished.
#[expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
fn end_with_runner(pod: &Pod, run: Background) -> (String, String) {
    fs::write(pod.layout().complete_marker(), "").unwrap();
    let (code, output, error) = run.end();
    assert_eq!(code, 0, "{error}");
    (output, error)
}

#[test]
fn a_sidecar_waits_for_the_socket_and_ends_when_the_runner_has() {
    let pod = Pod::new();
    let sidecar = SidecarConfig {
        init: Some("export A=1".to_owned()),
        service_pre: Some("echo pre $A; A=2".to_owned()),
        post: Some("echo post".to_owned()),
        ..waiting("echo $A $fluxsocket; touch started; exec sleep 600")
    };
    let run = beside(&pod, sidecar);
    broker_in_state(&pod.layout().local_socket(), "run");
    pod.await_file("work/started");
    let (output, _) = end_with_runner(&pod, run);
    assert_eq!(output, format!("pre 1\n2 {}\npost\n", pod.layout().local_uri()));
}

#[test]
fn a_sidecars_command_of_any_length_runs_and_its_text_is_in_no_command_line() {
    let pod = Pod::new();
    let filler = "x".repeat(200_000);
    let command = format!("TEXT={filler}; echo ${{#TEXT}} $(wc -c </proc/$$/cmdline); touch said");
    let run = beside(&pod, sidecar(&command));
    pod.await_file("work/said");
    let (output, _) = end_with_runner(&pod, run);
    let (length, arguments) = output.trim().split_once(' ').unwrap();
    assert_eq!(length, "200000");
    assert!(arguments.parse::<usize>().unwrap() < 1000, "{output}");
}

#[test]
fn a_sidecar_whose_command_has_ended_stays_until_the_runner_has() {
    let pod = Pod::new();
    let post = Some("touch posted".to_owned());
    let run = beside(&pod, SidecarConfig { post, ..sidecar("true") });
    pod.await_file("work/posted");
    let (_, error) = end_with_runner(&pod, run);
    assert!(error.contains("staying until the runner has finished"), "{error}");
}

#[test]
fn a_sidecar_whose_command_fails_ends_its_container_and_says_why_in_log_and_message() {
    for wait_for_socket in [false, true] {
        let pod = Pod::new();
        broker_in_state(&pod.layout().local_socket(), "run");
        let run = beside(&pod, SidecarConfig { wait_for_socket, ..sidecar("exit 3") });
        let (code, _, error) = run.end();
        assert_eq!(code, 3, "{error}");
        assert!(error.contains("error: the command ended with exit code 3"), "{error}");
        let message = pod.message();
        assert_eq!((message.exit_code, message.command_ran), (3, true));
        assert_eq!(message.last_error.unwrap(), "the command ended with exit code 3");
    }
}

#[test]
fn a_sidecar_whose_command_fails_because_flux_ends_has_not_failed() {
    let pod = Pod::new();
    broker_in_state(&pod.layout().local_socket(), "shutdown");
    let run = beside(&pod, waiting("echo $$ > pid; mv pid failed; exit 3"));
    let process = format!("/proc/{}", pod.await_file("work/failed").trim());
    await_that("the command's end is seen", || !fs::exists(&process).unwrap());
    let (_, error) = end_with_runner(&pod, run);
    assert!(error.contains("ended with exit code 3"), "said all the same: {error}");
}

#[test]
fn a_failing_post_hook_of_a_sidecar_leaves_its_code_as_it_was() {
    for (command, expected) in [("exit 3", 3), ("true", 0)] {
        let pod = Pod::new();
        let post = Some("touch posted; exit 1".to_owned());
        let run = beside(&pod, SidecarConfig { post, ..sidecar(command) });
        pod.await_file("work/posted");
        fs::write(pod.layout().complete_marker(), "").unwrap();
        let (code, _, error) = run.end();
        assert_eq!(code, expected, "{error}");
    }
}

/// With `restartPolicy: OnFailure` the kubelet starts a container again only when it has failed.
#[test]
fn a_sidecar_fails_with_the_runner_and_takes_nothing_of_an_earlier_one_for_the_present_ones() {
    let pod = Pod::new();
    let output = pod.run(&pod.config(&["sh", "-c", "exit 7"]));
    assert_eq!(code(&output), 7, "{}", stderr(&output));
    for command in ["exec sleep 600", "true"] {
        let run = beside(&pod, sidecar(command));
        let (code, _, error) = run.end();
        assert_eq!(code, i32::from(Exit::Broker.code()), "{error}");
        assert!(error.contains("the runner has ended with exit code 7"), "{error}");
    }
    // The second attempt: the marker of the first is still there when it begins.
    fs::remove_file(pod.at("broker-pid")).unwrap();
    pod.broker_does("exec sleep 600");
    let mut config = pod.config(&["true"]);
    config.hooks.init = Some(format!("ls {}/* > left; mv left seen", pod.at("mnt/flux").display()));
    let second = pod.beside(config, waiting("touch started; exec sleep 600"));
    let _runner = Background::start(pod.for_this_pod("run"));
    pod.await_file("broker-pid");
    let seen = pod.read("work/seen");
    assert!(!seen.contains("flux-operator-complete.txt"), "{seen}");
    let _beside = Background::start(second);
    broker_in_state(&pod.layout().local_socket(), "run");
    pod.await_file("work/started");
}

#[test]
fn a_sidecar_ends_when_the_runner_was_killed_or_could_not_begin() {
    let killed = Pod::new();
    killed.broker_does("exec sleep 600");
    killed.write_config(&killed.config(&["true"]));
    let runner = Background::start(killed.for_this_pod("run"));
    killed.await_file("broker-pid");
    let during = beside(&killed, sidecar("exec sleep 600"));
    let before = beside(&killed, waiting("true"));
    runner.signal(Signal::SIGKILL);
    // In a pod it would have ended with PID 1.
    let broker = killed.read("broker-pid").trim().parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(broker), Signal::SIGKILL).unwrap();

    let without_flux = Pod::new();
    fs::remove_file(without_flux.at("mnt/flux/view/bin/flux")).unwrap();
    let waiting = beside(&without_flux, waiting("true"));
    let failed = without_flux.for_this_pod("run").output().unwrap();
    assert_eq!(code(&failed), i32::from(Exit::View.code()), "{}", stderr(&failed));

    for run in [during, before, waiting] {
        let (code, _, error) = run.end();
        assert_eq!(code, i32::from(Exit::Broker.code()), "{error}");
        assert!(error.contains("the runner is gone without having finished"), "{error}");
    }
}

#[test]
fn a_sidecar_waits_no_longer_for_a_runner_that_never_begins_than_a_worker_for_its_lead() {
    for sidecar in [waiting("true"), sidecar("exec sleep 600"), sidecar("true")] {
        let pod = Pod::new();
        let mut config = pod.config(&["true"]);
        config.network.lead_deadline_seconds = 0;
        let (code, _, error) = Background::start(pod.beside(config, sidecar)).end();
        assert_eq!(code, i32::from(Exit::Broker.code()), "{error}");
        assert!(error.contains("the runner is gone without having finished"), "{error}");
    }
}

#[test]
fn a_sidecar_that_is_not_configured_is_refused_by_name() {
    let pod = Pod::new();
    pod.write_config(&pod.config(&["true"]));
    let output = pod.for_this_pod("run").args(["--container", "nobody"]).output().unwrap();
    assert_eq!(code(&output), i32::from(Exit::Config.code()));
    assert!(stderr(&output).contains("\"nobody\""));
}
