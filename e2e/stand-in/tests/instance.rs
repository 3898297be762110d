//! Instances of one, two and three brokers: forming, running a program, ending.

mod support;

use nix::sys::signal::Signal;
use support::{Site, skipped_with_real_flux, stderr, wait_for};

#[test]
fn three_brokers_run_a_program_and_its_exit_code_passes() {
    let site = Site::new(3);
    let program = "flux getattr size; flux getattr hostlist; exit 7";
    let mut workers = [site.start(2, &[]), site.start(1, &["ignored", "program"])];
    let mut lead = site.start(0, &[program]);
    assert_eq!(lead.code(), Some(7));
    assert_eq!(workers.each_mut().map(support::Broker::code), [Some(0), Some(0)]);
    assert_eq!(site.read("0.out"), "3\na[0-2]\n");
    assert!(site.read("1.err").contains("<6>broker.info[1]: parent-ready: join->config-sync"));
    assert!(!site.path("run0").exists() && !site.path("run1").exists());
}

#[test]
fn the_environment_of_the_program_is_that_of_an_initial_program() {
    let site = Site::new(1);
    let mut command = site.broker("start", 0, &["bash", "-c", "env; command -v flux"]);
    command.env("NOTIFY_SOCKET", "/nowhere").env("SLURM_X", "3").env("KEPT", "yes");
    assert_eq!(site.spawn(command, 0).code(), Some(0));
    let output = site.read("0.out");
    assert!(output.contains("KEPT=yes\n"));
    assert!(output.contains(&format!("FLUX_URI=local://{}\n", site.text("run0/local-0"))));
    assert!(!output.contains("NOTIFY_SOCKET") && !output.contains("SLURM_X"));
    assert!(output.ends_with("/flux\n"), "{output}");
}

#[test]
fn a_worker_with_another_certificate_stays_in_join_and_nobody_says_why() {
    let site = Site::new(3);
    site.certificate("other.cert", [8; 32]);
    let config = site.read("broker.toml").replace("curve.cert", "other.cert");
    let other = site.write("other.toml", &config);
    let mut stranger = site.start(2, &["-c", &other]);
    let _worker = site.start(1, &[]);
    let _lead = site.start(0, &["-Sbroker.quorum=2", "sleep", "120"]);
    site.wait_for_log(0, "quorum->run");
    let refused = site.ask(2, &["submit", "true"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("Upstream Flux broker is offline. Try again later."));
    assert!(stranger.runs() && !site.read("2.err").contains("join->"));
    assert!(!site.read("0.err").contains("a2"), "{}", site.read("0.err"));
}

#[test]
fn the_quorum_waits_for_the_last_host_without_end() {
    let site = Site::new(3);
    let mut lead = site.start(0, &["true"]);
    let _worker = site.start(1, &[]);
    site.wait_for_log(1, "init->quorum");
    assert!(lead.runs() && !site.read("0.err").contains("quorum->run"));
    let mut late = site.start(2, &[]);
    assert_eq!((lead.code(), late.code()), (Some(0), Some(0)));
}

#[test]
fn signals_end_a_broker_as_its_state_has_it() {
    let site = Site::new(2);
    let mut lead = site.start(0, &["true"]);
    site.wait_for_log(0, "init->quorum");
    lead.signal(Signal::SIGTERM);
    assert_eq!(lead.code(), Some(0), "in quorum");
    let mut worker = site.start(1, &[]);
    site.wait_for_log(1, "load-builtins->join");
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.code(), Some(1), "in join, without a parent");

    let single = Site::new(1);
    let handler = "trap 'exit 0' HUP; echo ready; while :; do sleep 0.05; done";
    for (program, code) in [("echo ready; exec sleep 120", 129), (handler, 1)] {
        let mut lead = single.start(0, &["bash", "-c", program]);
        wait_for("the program", || single.read("0.out").contains("ready").then_some(()));
        lead.signal(Signal::SIGTERM);
        assert_eq!(lead.code(), Some(code), "{program}");
    }
    let mut lead = single.start(0, &["-Sbroker.rc2_none"]);
    single.wait_for_log(0, "quorum->run");
    lead.signal(Signal::SIGTERM);
    assert_eq!(lead.code(), Some(0), "without a program");
}

#[test]
fn shutdown_ends_the_instance_from_rank_0_only() {
    let site = Site::new(2);
    let [mut lead, mut worker] = site.start_two();
    let wrong = site.ask(1, &["shutdown", "--background"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr(&wrong).contains("shutdown may only be initiated on rank 0"));
    let shutdown = site.ask(0, &["shutdown", "--background"]);
    assert!(shutdown.status.success(), "{}", stderr(&shutdown));
    assert_eq!((lead.code(), worker.code()), (Some(129), Some(0)));
}

#[test]
fn a_worker_outlives_its_lead_until_a_new_one_sends_it_away() {
    let site = Site::new(2);
    let [lead, mut worker] = site.start_two();
    lead.signal(Signal::SIGKILL);
    drop(lead);
    assert!(worker.runs());
    let _new = site.start(0, &["sleep", "120"]);
    assert_eq!(worker.code(), Some(1));
    let log = site.read("1.err");
    assert!(log.contains("overlay.crit[1]: a0 (rank 0) sent disconnect control message"), "{log}");
    let mut again = site.start(1, &[]);
    site.wait_for_log(0, "quorum->run");
    assert!(again.runs());
}

#[test]
fn a_lost_worker_is_noticed_and_may_come_back_as_may_one_that_has_left() {
    let site = Site::new(2);
    let [_lead, worker] = site.start_two();
    worker.signal(Signal::SIGKILL);
    drop(worker);
    site.wait_for_log(0, "broker.err[0]: dead to Flux: a1 (rank 1)");
    for _ in 0..2 {
        let mut worker = site.start(1, &[]);
        site.wait_for_log(1, "quorum->run");
        let ran = site.ask(0, &["run", "-N2", "true"]);
        assert!(ran.status.success(), "{}", stderr(&ran));
        worker.signal(Signal::SIGTERM);
        assert_eq!(worker.code(), Some(0));
    }
}

#[test]
fn a_mismatched_configuration_is_refused_at_hello() {
    let site = Site::new(3);
    let other = site.write("other.toml", &site.read("broker.toml").replace("a[0-2]", "a0,a2,a1"));
    let _lead = site.start(0, &["true"]);
    assert_eq!(site.start(1, &["-c", &other]).code(), Some(1));
    let text =
        "rejecting connection from a1 (rank 2): a2 is configured as rank 2: mismatched config?";
    site.wait_for_log(0, text);
}

#[test]
fn a_broker_that_leads_its_process_group_takes_the_group_along() {
    let site = Site::new(1);
    let program = "sleep 120 & echo $!; flux getattr rank";
    let mut command = site.broker("start", 0, &["bash", "-c", program]);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    assert_eq!(site.spawn(command, 0).code(), Some(0));
    let process = site.read("0.out").lines().next().unwrap_or_default().to_owned();
    wait_for("the end of the program's child", || {
        let status = std::fs::read_to_string(format!("/proc/{process}/stat"));
        status.map_or(Some(()), |status| status.contains(") Z ").then_some(()))
    });
}

#[test]
fn no_shell_no_rc1() {
    if skipped_with_real_flux("its bash cannot be taken away") {
        return;
    }
    let site = Site::new(1);
    let bare = |shell: &str| {
        let mut command = site.broker("broker", 0, &["/bin/true"]);
        command.env_clear().env("PATH", site.text("bin")).env("SHELL", shell);
        site.spawn(command, 0).code()
    };
    assert_eq!(bare("/nowhere/bash"), Some(127));
    assert_eq!(bare(&site.text("bin/flux")), Some(1), "bash is not in PATH");
    std::os::unix::fs::symlink("flux", site.path("bin/bash")).expect("links");
    assert_eq!(bare(&site.text("bin/bash")), Some(0), "being there is all that is asked of it");
    let bash = std::process::Command::new(site.path("bin/bash")).args(["-c", "true"]).output();
    assert_eq!(bash.expect("runs").status.code(), Some(64));
}
