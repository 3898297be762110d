//! Instances of one, two and three brokers: forming, and ending.

use crate::site::{Site, answer, skipped_with_real_flux};
use std::process::Command;

#[test]
fn three_brokers_form_an_instance_and_end_with_their_lead() {
    let site = Site::new(3);
    let (mut lead, mut worker) = (site.start(0, &[]), site.start(1, &[]));
    site.wait_for_log(1, "init->quorum");
    assert!(lead.runs() && !site.read("0.err").contains("quorum->run"));
    let mut last = site.start(2, &[]);
    site.wait_for_log(1, "quorum->run");
    assert_eq!(site.ok(0, &["getattr", "size"]), "3\n");
    assert_eq!(site.ok(1, &["getattr", "hostlist"]), "a[0-2]\n");
    assert_eq!([lead.end(), worker.code(), last.code()], [Some(0); 3]);
    assert!(site.read("1.err").contains("<6>broker.info[1]: parent-ready: join->config-sync"));
    assert!(!site.path("run0").exists() && !site.path("run1").exists());
}

#[test]
fn the_lead_alone_shuts_an_instance_down() {
    let (site, [mut lead, mut worker]) = Site::two();
    site.wait_for_log(1, "quorum->run");
    let refused = site.ask(1, &["shutdown", "--background"]);
    assert!(refused.err.contains("shutdown may only be initiated on rank 0"), "{}", refused.err);
    site.ok(0, &["shutdown", "--background"]);
    assert_eq!([lead.code(), worker.code()], [Some(0); 2]);
}

#[test]
fn a_worker_with_another_certificate_stays_in_join() {
    let site = Site::new(3);
    site.certificate("other.cert", [8; 32]);
    let config = site.read("broker.toml").replace("curve.cert", "other.cert");
    let other = site.write("other.toml", &config);
    let mut stranger = site.start(2, &["-c", &other]);
    let _worker = site.start(1, &[]);
    let _lead = site.start(0, &["-Sbroker.quorum=2"]);
    site.wait_for_log(0, "quorum->run");
    let refused = site.ask(2, &["submit", "true"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("Upstream Flux broker is offline. Try again later."));
    assert!(stranger.runs() && !site.read("2.err").contains("join->"));
    assert!(!site.read("0.err").contains("a2"), "{}", site.read("0.err"));
}

#[test]
fn a_signal_ends_a_broker_that_waits_for_others() {
    let site = Site::new(2);
    let mut lead = site.start(0, &[]);
    site.wait_for_log(0, "init->quorum");
    assert_eq!(lead.end(), Some(0), "in quorum");
    let mut worker = site.start(1, &[]);
    site.wait_for_log(1, "load-builtins->join");
    assert_eq!(worker.end(), Some(1), "in join, without a parent");
}

#[test]
fn a_worker_outlives_its_lead_until_a_new_one_rejects() {
    let (site, [lead, mut worker]) = Site::two();
    drop(lead);
    assert!(worker.runs());
    let _new = site.start(0, &[]);
    assert_eq!(worker.code(), Some(1));
    let log = site.read("1.err");
    assert!(log.contains("overlay.crit[1]: a0 (rank 0) sent disconnect control message"), "{log}");
    let mut again = site.start(1, &[]);
    site.wait_for_log(0, "quorum->run");
    assert!(again.runs());
}

#[test]
fn lost_workers_and_workers_that_left_may_come_back() {
    let (site, [_lead, worker]) = Site::two();
    drop(worker);
    site.wait_for_log(0, "broker.err[0]: dead to Flux: a1 (rank 1)");
    for _ in 0..2 {
        let mut worker = site.start(1, &[]);
        site.wait_for_log(1, "quorum->run");
        site.ok(0, &["run", "-N2", "true"]);
        assert_eq!(worker.end(), Some(0));
    }
}

#[test]
fn a_mismatched_configuration_is_refused_at_hello() {
    let site = Site::new(3);
    let other = site.write("other.toml", &site.read("broker.toml").replace("a[0-2]", "a0,a2,a1"));
    let _lead = site.start(0, &[]);
    assert_eq!(site.start(1, &["-c", &other]).code(), Some(1));
    let text =
        "rejecting connection from a1 (rank 2): a2 is configured as rank 2: mismatched config?";
    site.wait_for_log(0, text);
}

#[test]
fn no_shell_no_rc1() {
    if skipped_with_real_flux("its bash cannot be taken away") {
        return;
    }
    let site = Site::new(1);
    let bare = |shell: &str| {
        let mut command = site.broker("broker", 0, &[]);
        command.env_clear().env("PATH", site.text("bin")).env("SHELL", shell);
        site.spawn(command, 0)
    };
    assert_eq!(bare("/nowhere/bash").code(), Some(127));
    assert_eq!(bare(&site.text("bin/flux")).code(), Some(1), "bash is not in PATH");
    std::os::unix::fs::symlink("flux", site.path("bin/bash")).expect("links");
    let mut lead = bare(&site.text("bin/bash"));
    site.wait_for_log(0, "quorum->run");
    assert_eq!(lead.end(), Some(0), "being there is all that is asked of it");
    assert_eq!(answer(Command::new(site.path("bin/bash"))).code, Some(64));
}
