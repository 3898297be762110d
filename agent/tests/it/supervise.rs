//! What a first process owes its pod.

use crate::pod::closed_port;
use crate::pod::namespace::FirstProcess;
use crate::prelude::*;
use flux_contract::{Archive, WorkerPolicy};
use std::sync::atomic::AtomicUsize;
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
    pod.await_file("trapped");
    let mut seen = String::new();
    for (signal, name) in signals {
        run.signal(*signal);
        seen.push_str(name);
        await_that(name, || fs::read_to_string(pod.at("signals")).is_ok_and(|text| text == seen));
    }
}

#[test]
fn a_broker_gets_every_signal_and_a_command_sigterm() {
    let of_user = [(Signal::SIGUSR1, "USR1\n"), (Signal::SIGUSR2, "USR2\n")];
    let of_broker = [
        (Signal::SIGHUP, "HUP\n"),
        (Signal::SIGINT, "INT\n"),
        (Signal::SIGQUIT, "QUIT\n"),
        (Signal::SIGTERM, "TERM\n"),
    ];
    for (is_broker, signals) in [(true, &of_broker[..]), (false, &[(Signal::SIGINT, "TERM\n")])] {
        let pod = Pod::new();
        if is_broker {
            pod.broker_does(NOTES_SIGNALS);
        }
        let run = pod.start(&pod.launcher(NOTES_SIGNALS));
        all_are_noted(&pod, &run, &[&of_user, signals].concat());
        let ended = run.end().with_code(stopped());
        let said = ended.log.contains("it then ended with exit code 3");
        assert_eq!((said, pod.at("cleaned-up").exists()), (!is_broker, !is_broker), "{ended:?}");
        pod.error_says(if is_broker { "SIGTERM" } else { "SIGINT" });
    }
}

#[test]
fn whatever_signal_a_runtime_sends_stops_in_order() {
    // From outside of a namespace whose first process the run is.
    // `STOPSIGNAL` of Apache, of images with systemd, of OpenRC, of HAProxy and of nginx.
    let signals = [
        ("WINCH", "SIGWINCH"),
        ("37", "SIGRTMIN+3"),
        ("PWR", "SIGPWR"),
        ("USR1", "SIGUSR1"),
        ("QUIT", "SIGQUIT"),
    ];
    for (number, name) in signals {
        let pod = Pod::new();
        let Some(run) = FirstProcess::run(&pod, &pod.launcher(NOTES_SIGNALS)) else { return };
        pod.await_file("trapped");
        let kill = format!("kill -{number} {}", run.pid());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        run.end().with_code(stopped()).with_log("passing SIGTERM on to the command");
        assert_eq!(pod.read("signals"), "TERM\n", "{name}");
        pod.error_says(&format!("stopped by {name} before the command had ended"));
        assert!(pod.at("cleaned-up").exists(), "{name}");
    }
}

#[test]
fn a_signal_from_within_the_pod_is_the_commands() {
    let pod = Pod::new();
    let script = "trap 'touch $POD/noted' USR1; kill -USR1 1
        until [ -e $POD/noted ]; do sleep 0.02; done; kill -40 1; kill -40 1; exit 5";
    let Some(run) = FirstProcess::run(&pod, &pod.launcher(script)) else { return };
    let ended = run.end().with_code(5).with_log("passing SIGUSR1 on to the command");
    assert_eq!(ended.log.matches("SIGRTMIN+6 is ignored").count(), 1, "{}", ended.log);
}

#[test]
fn a_signal_without_a_receiver_is_logged_once() {
    let (pod, mut config) = Pod::worker(closed_port());
    let waits = "trap 'touch $POD/noted' USR2; touch $POD/trapped
        until [ -e $POD/noted ]; do sleep 0.02; done; true";
    config.hooks.pre = Some(waits.to_owned());
    let run = pod.start(&config);
    pod.await_file("trapped");
    run.signal(Signal::SIGUSR2);
    let status = || pod.ask("status", &["--output", "json"]).json();
    await_that("the status says what is in the way", || {
        status()["lastError"].as_str().is_some_and(|error| error.contains("connection refused"))
    });
    let known = status();
    assert_eq!((&known["phase"], &known["role"]), (&"wait-for-lead".into(), &"worker".into()));
    assert!(known.get("demand").is_none(), "only what is known: {known}");
    for _ in 0..2 {
        run.signal(Signal::SIGUSR2);
    }
    run.signal(Signal::SIGTERM);
    let ended = run.end().with_code(stopped());
    assert_eq!(ended.log.matches("SIGUSR2 is ignored").count(), 1, "{}", ended.log);
    assert!(!pod.at("broker-pid").exists(), "no broker before the lead answers");
}

/// Of another user than the agent, as a process that the kernel holds: SIGKILL does not end it.
#[test]
fn the_run_goes_on_without_an_unkillable_command() {
    let Some(pod) = Pod::of_root() else { return };
    let copied = Command::new("sh")
        .args(["-c", "cp $(command -v setpriv) $0 && chmod 4755 $0"])
        .arg(pod.at("privileged"))
        .status();
    assert!(copied.unwrap().success());
    let script = "exec $POD/privileged --reuid 0 --regid 0 --clear-groups sh -c \
        'trap \"\" TERM; touch $POD/trapped; while :; do sleep 0.1; done'";
    let mut config = pod.launcher(script);
    config.shutdown.grace_seconds = 10;
    config.hooks.post = Some("touch $POD/work/posted".to_owned());
    let run = pod.as_other_user(&pod.prepared(&config));
    let Some(run) = FirstProcess::start(&pod, &run) else { return };
    pod.await_file("trapped");
    run.signal(Signal::SIGTERM);
    run.end().with_code(stopped());
    pod.error_says("SIGKILL does not end the command (process ");
    pod.error_says(", sh, state ");
    assert!(pod.at("work/posted").exists() && fs::exists(pod.layout().complete_marker()).unwrap());
}

#[test]
fn a_signal_ends_a_hook_and_the_run_at_once() {
    let (pod, mut config) = Pod::with(&["touch", "ran"]);
    config.hooks.pre =
        Some("sleep 600 & echo $! > sleeping.new; mv sleeping.new sleeping; wait".to_owned());
    config.hooks.post = Some("echo post".to_owned());
    let run = pod.start(&config);
    let sleeping = pod.await_file("work/sleeping");
    let started = Instant::now();
    run.signal(Signal::SIGTERM);
    run.end().with_code(stopped()).with_output("post\n");
    assert!(started.elapsed() < PATIENCE / 2);
    await_its_end(&sleeping);
    assert!(!pod.at("work/ran").exists());
}

/// Waits until there is no process `pid`, or one that nobody waits for.
fn await_its_end(pid: &str) {
    let process = format!("/proc/{}/stat", pid.trim());
    await_that("it is gone", || {
        fs::read_to_string(&process).map_or(true, |stat| stat.contains(") Z "))
    });
}

#[test]
fn a_worker_gives_up_at_its_deadline_with_the_cause() {
    let (pod, mut config) = Pod::worker(closed_port());
    config.network.lead_deadline_seconds = 0;
    pod.run(&config).with_code(Exit::LeadUnreachable.code());
    pod.error_says("connection refused");
}

/// A lead of two whose broker says that it is in `state`, and that then is to wait for itself alone. How many
/// brokers it has started, and what it said.
fn with_a_smaller_quorum(state: &'static str) -> (usize, String) {
    let pod = Pod::new();
    broker_in_state(pod.layout().local_socket(), state);
    pod.broker_does(
        "echo begun >> $POD/begun
        case \"$*\" in *broker.quorum=1*) exit 0 ;; esac
        while [ ! -e $POD/done ]; do sleep 0.02; done",
    );
    let command = "touch $POD/started; while [ ! -e $POD/done ]; do sleep 0.02; done";
    let mut config = pod.config(&["sh", "-c", command]);
    config.network.port = closed_port();
    let run = pod.start(&config);
    pod.await_file(if state == "quorum" { "begun" } else { "started" });
    config.broker.quorum = Some(1);
    pod.write_config(&config);
    if state != "quorum" {
        fs::write(pod.at("done"), "").unwrap();
    }
    let log = run.end().log;
    (pod.read("begun").lines().count(), log)
}

#[test]
fn a_lead_whose_quorum_becomes_smaller_waits_for_fewer() {
    let (begun, log) = with_a_smaller_quorum("quorum");
    assert_eq!(begun, 2, "{log}");
    assert!(log.contains("1 brokers are enough now"), "{log}");
    let (begun, log) = with_a_smaller_quorum("run");
    assert_eq!(begun, 1, "{log}");
}

/// Flux leaves them stopped; in an archive they are as they were left, which no checkpoint of a new instance has.
#[test]
fn the_named_queues_of_a_new_instance_are_started() {
    let start = r#"{"all":true,"start":true}"#;
    for (kept, expected) in [("", start), ("state.tgz", ""), ("state.tgz.checkpoint", start)] {
        let archived = expected.is_empty();
        let pod = Pod::new();
        let started = pod.at("started");
        broker_that(pod.layout().local_socket(), move |topic, payload| match topic {
            "state-machine.get" => Ok(state_text("run")),
            "job-manager.queue-list" => Ok(r#"{"queues":["batch","debug"]}"#.to_owned()),
            "job-manager.queue-start" => {
                fs::write(&started, payload).unwrap();
                Ok(String::new())
            }
            _ => Err(NO_SERVICE),
        });
        let until = if archived { "" } else { "until [ -e $POD/started ]; do sleep 0.02; done" };
        let mut config = pod.launcher(until);
        let path = pod.at("state.tgz").display().to_string();
        config.archive = (!kept.is_empty()).then_some(Archive { path, every_seconds: None });
        if !kept.is_empty() {
            // A checkpoint that is whole, and has nothing.
            fs::write(pod.at(kept), [0; 1024]).unwrap();
        }
        let log = pod.run(&config).with_code(0).log;
        assert_eq!(log.contains("started the queues batch, debug"), !archived, "{log}");
        assert_eq!(fs::read_to_string(pod.at("started")).unwrap_or_default(), expected);
    }
}

#[test]
fn the_command_leads_a_process_group_with_all_signals_unblocked() {
    let pod = Pod::new();
    pod.broker_does("cut -d' ' -f5 /proc/self/stat");
    let script = "cat $POD/broker-pid; echo $$; cut -d' ' -f5 /proc/self/stat
        grep -E 'Sig(Blk|Ign)' /proc/self/status";
    let output = pod.run(&pod.launcher(script)).output;
    let [group_of_broker, broker, command, group_of_command, blocked, ignored] =
        output.lines().collect::<Vec<_>>()[..]
    else {
        panic!("{output}")
    };
    assert_eq!((group_of_broker, group_of_command), (broker, command));
    let mask = |line: &str| {
        let value = line.split_whitespace().last().unwrap();
        u64::from_str_radix(value, 16).unwrap()
    };
    // The real-time signals above 31 are whatever this test was started with.
    let ordinary = (1 << 31) - 1;
    assert_eq!((mask(blocked), mask(ignored) & ordinary), (0, 0), "{output}");
}

#[test]
fn a_worker_restarts_a_failed_broker_until_the_instance_ends() {
    let (pod, mut config, _lead) = worker_with_lead();
    pod.broker_does(
        "echo >> $POD/starts; [ $(wc -l < $POD/starts) -lt 4 ] || end_with_lead; exit 1",
    );
    let log = pod.run(&config).with_code(0).log;
    assert!(log.contains("ended with exit code 1; starting it again in 0.5 s"), "{log}");
    assert_eq!(pod.read("flux-calls").matches("flux start").count(), 4);
    assert_eq!(log.matches("the lead broker answers").count(), 4, "{log}");
    let message = pod.message();
    let names: Vec<&str> = message.phases.iter().map(|phase| phase.name.as_str()).collect();
    let expected = ["prepare", "wait-for-lead", "quorum", "wait-for-lead", "quorum", "post"];
    assert_eq!((message.restarts, &names[..]), (3, &expected[..]), "the first start and the last");
    config.worker = WorkerPolicy::LeaveAlways;
    pod.broker_does("exit 1");
    pod.run(&config).with_code(0);
}

#[test]
fn the_lead_is_ready_once_the_command_starts() {
    let pod = Pod::new();
    pod.broker_does("while [ ! -e $POD/quorum ]; do sleep 0.02; done");
    let command = "while [ ! -e $POD/done ]; do sleep 0.02; done; exit 5";
    let run = pod.start(&pod.launcher(command));
    pod.await_file("broker-pid");
    pod.ask("ready", &[]).with_code(1).with_log("not ready: quorum");
    fs::write(pod.at("quorum"), "").unwrap();
    pod.ask("ready", &["--timeout", "60"]).with_code(0);
    pod.ask("wait", &["broker"]).with_code(0);
    fs::write(pod.at("done"), "").unwrap();
    run.end().with_code(5);
    assert_eq!(pod.ask("ready", &[]).code, 1, "nobody answers any more");
    pod.ask("wait", &["complete"]).with_code(0);
}

#[test]
fn an_interactive_lead_stays_until_it_is_shut_down() {
    let (pod, mut config) = Pod::with(&["sh", "-c", "echo $FLUX_URI"]);
    let Workload::Submit { submission } = config.workload else { panic!() };
    config.workload = Workload::Interactive { submission: Some(submission) };
    broker_in_state(pod.layout().local_socket(), "run");
    pod.broker_does("while [ ! -e $POD/shutdown ]; do sleep 0.02; done; exit 0");
    let run = pod.start(&config);
    await_that("the command is submitted", || {
        fs::read_to_string(pod.at("flux-calls")).is_ok_and(|calls| calls.contains("flux submit"))
    });
    await_that("the lead is ready", || pod.ask("ready", &[]).code == 0);
    pod.ask("ready", &["--timeout", &u64::MAX.to_string()]).with_code(0);
    fs::write(pod.at("shutdown"), "").unwrap();
    let ended = run.end().with_code(0).with_output(&format!("{}\n", pod.layout().local_uri()));
    let entrance = "to enter it: kubectl exec -it -n apps job/hello -c hello -- ";
    assert_eq!(ended.log.matches(entrance).count(), 1, "{}", ended.log);
    let calls = pod.read("flux-calls");
    assert!(calls.contains("-Sbroker.rc2_none") && calls.matches("flux submit").count() == 1);
}

/// A short job comes and goes directly before the instance would be ended.
#[test]
fn an_unused_instance_ends_after_its_last_short_job() {
    let (pod, mut config) = Pod::with(&[]);
    config.workload = Workload::Interactive { submission: None };
    config.shutdown.idle_seconds = Some(1);
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    broker_that(pod.layout().local_socket(), move |topic, _| match topic {
        "state-machine.get" => Ok(state_text("run")),
        "job-manager.stats-get" => Ok(r#"{"active_jobs":0}"#.to_owned()),
        "job-manager.history.get" => {
            let newest = u8::from(counted.fetch_add(1, Ordering::SeqCst) >= 2);
            Ok(format!("{{\"jobs\":[{newest}]}}"))
        }
        _ => Err(NO_SERVICE),
    });
    pod.broker_does("until grep -q 'flux shutdown' $POD/flux-calls; do sleep 0.02; done; exit 0");
    let ended = pod.run(&config).with_code(0);
    ended.with_log("it had no job and no session for 1 s (spec.idleDeadlineSeconds)");
    assert_eq!(looks.load(Ordering::SeqCst), 6, "a second of its own follows the job");
}

#[test]
fn diagnostics_ask_everything_and_stay_until_a_signal() {
    let pod = Pod::new();
    let answers = "echo asked: \"$@\"\n[ \"$1\" != overlay ] || { echo no answer >&2; exit 1; }\n";
    pod.write_executable("flux", &format!("#!/bin/sh\n{answers}"));
    let flux = pod.at("flux").display().to_string();
    let mut command = pod.agent(&["diagnose", "--flux", &flux]);
    command.stdout(fs::File::create(pod.at("log")).unwrap());
    let mut run = Background(command.spawn().unwrap());
    await_that("all is said", || pod.read("log").contains("stays up"));
    assert!(run.0.try_wait().unwrap().is_none(), "it stays up");
    run.signal(Signal::SIGHUP);
    assert_eq!(run.0.wait().unwrap().code(), Some(stopped()));
    let text = pod.read("log");
    assert_eq!(text.matches("== failed: exit status: 1").count(), 2, "{text}");
    let in_their_place = "no answer\n== failed";
    assert_eq!(text.matches(in_their_place).count(), 2, "{text}");
    for (_, arguments) in flux_agent::program::QUESTIONS {
        assert!(text.contains(&format!("asked: {}", arguments.join(" "))), "{text}");
    }
}

#[test]
fn a_killed_broker_ends_its_command_and_the_run() {
    let pod = Pod::new();
    let script = "trap 'touch $POD/asked' TERM; sleep 600 >/dev/null 2>&1 & echo $! > $POD/sleeping
        kill -9 $(cat $POD/broker-pid); while :; do sleep 0.02; done";
    pod.start(&pod.launcher(script)).end().with_code(137);
    pod.error_says("exit code 137");
    assert!(pod.message().command_ran && !pod.at("asked").exists());
    await_its_end(&pod.read("sleeping"));
}

#[test]
fn a_shutdown_of_the_instance_ends_the_command_in_order() {
    let pod = Pod::new();
    // As `flux shutdown` does: the broker leaves state `run` and waits for nobody.
    let script = "trap 'echo saved; exit 4' TERM; kill -TERM $(cat $POD/broker-pid)
        while :; do sleep 0.02; done";
    pod.start(&pod.launcher(script)).end().with_code(4).with_output("saved\n");
    assert!(pod.message().command_ran);
}
