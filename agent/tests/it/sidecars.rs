//! Containers beside the one that runs Flux.

use crate::prelude::*;
use flux_contract::SidecarConfig;
use nix::sys::signal::kill;
use nix::unistd::Pid;

/// A sidecar without hooks, whose command begins when there is a broker.
fn waiting(command: &str) -> SidecarConfig {
    SidecarConfig { wait_for_socket: true, ..sidecar(command) }
}

fn beside(pod: &Pod, sidecar: SidecarConfig) -> Background {
    Background::start(pod.beside(pod.config(&["true"]), sidecar))
}

/// The end of a sidecar whose runner has finished.
fn end_with_runner(pod: &Pod, run: Background) -> Ended {
    fs::write(pod.layout().complete_marker(), "").unwrap();
    run.end()
}

#[test]
fn it_waits_for_the_socket_and_ends_after_the_runner() {
    let pod = Pod::new();
    let sidecar = SidecarConfig {
        init: Some("export A=1".to_owned()),
        service_pre: Some("echo pre $A; A=2".to_owned()),
        post: Some("echo post".to_owned()),
        ..waiting(
            "trap 'touch noted' USR1; echo $A $fluxsocket; touch started
            while :; do sleep 0.02; done",
        )
    };
    let run = beside(&pod, sidecar);
    broker_in_state(pod.layout().local_socket(), "run");
    pod.await_file("work/started");
    // Its command gets the signals of the user.
    run.signal(Signal::SIGUSR1);
    pod.await_file("work/noted");
    let expected = format!("pre 1\n2 {}\npost\n", pod.layout().local_uri());
    end_with_runner(&pod, run).with_code(0).with_output(&expected);
}

#[test]
fn one_whose_command_fails_ends_its_container() {
    for wait_for_socket in [false, true] {
        let pod = Pod::new();
        broker_in_state(pod.layout().local_socket(), "run");
        let run = beside(&pod, SidecarConfig { wait_for_socket, ..sidecar("exit 3") });
        run.end().with_code(3).with_log("error: the command ended with exit code 3");
        let message = pod.message();
        assert_eq!((message.exit_code, message.command_ran), (3, true));
        assert_eq!(message.last_error.unwrap(), "the command ended with exit code 3");
    }
}

#[test]
fn one_whose_command_fails_because_flux_ends_has_not_failed() {
    let pod = Pod::new();
    broker_in_state(pod.layout().local_socket(), "shutdown");
    let run = beside(&pod, waiting("echo $$ > pid; mv pid failed; exit 3"));
    let process = format!("/proc/{}", pod.await_file("work/failed").trim());
    await_that("the command's end is seen", || !fs::exists(&process).unwrap());
    end_with_runner(&pod, run).with_code(0).with_log("ended with exit code 3");
}

#[test]
fn one_whose_command_succeeded_stays_until_the_runner_ends() {
    for (command, hook, expected) in [("exit 3", 1, 3), ("true", 1, 0), ("true", 0, 0)] {
        let pod = Pod::new();
        let post = Some(format!("touch posted; exit {hook}"));
        let run = beside(&pod, SidecarConfig { post, ..sidecar(command) });
        pod.await_file("work/posted");
        let log = end_with_runner(&pod, run).with_code(expected).log;
        assert_eq!(log.contains("staying until the runner has finished"), expected == 0, "{log}");
    }
}

/// With `restartPolicy: OnFailure` the kubelet starts a container again only when it has failed.
#[test]
fn it_fails_with_its_own_runner_alone() {
    let pod = Pod::new();
    pod.run(&pod.config(&["sh", "-c", "exit 7"])).with_code(7);
    for command in ["exec sleep 600", "true"] {
        let ended = beside(&pod, sidecar(command)).end().with_code(Exit::Broker.code());
        ended.with_log("the runner has ended with exit code 7");
    }
    // The second attempt: the marker of the first is still there when it begins.
    fs::remove_file(pod.at("broker-pid")).unwrap();
    pod.broker_does("exec sleep 600");
    let mut config = pod.config(&["true"]);
    config.hooks.init = Some("ls $POD/mnt/flux/* > left; mv left seen".to_owned());
    let second = pod.beside(config, waiting("touch started; exec sleep 600"));
    let _runner = Background::start(pod.for_this_pod("run"));
    pod.await_file("broker-pid");
    let seen = pod.read("work/seen");
    assert!(!seen.contains("flux-operator-complete.txt"), "{seen}");
    let _beside = Background::start(second);
    broker_in_state(pod.layout().local_socket(), "run");
    pod.await_file("work/started");
}

fn ends_without_runner(sidecar: Background) {
    let ended = sidecar.end().with_code(Exit::Broker.code());
    ended.with_log("the runner is gone without having finished");
}

#[test]
fn it_ends_when_the_runner_is_gone() {
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
    kill(Pid::from_raw(broker), Signal::SIGKILL).unwrap();

    let without_flux = Pod::new();
    fs::remove_file(without_flux.at("mnt/flux/view/bin/flux")).unwrap();
    let waiting = beside(&without_flux, waiting("true"));
    without_flux.ask("run", &[]).with_code(Exit::View.code());
    for run in [during, before, waiting] {
        ends_without_runner(run);
    }
}

#[test]
fn its_wait_for_the_runner_has_a_deadline() {
    for sidecar in [waiting("true"), sidecar("exec sleep 600"), sidecar("true")] {
        let pod = Pod::new();
        let mut config = pod.config(&["true"]);
        config.network.lead_deadline_seconds = 0;
        ends_without_runner(Background::start(pod.beside(config, sidecar)));
    }
}
