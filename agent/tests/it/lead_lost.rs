//! A worker that loses its lead while its broker waits for the quorum: whole runs of the real binary.

use crate::pod::broker::{NO_SERVICE, UNREACHABLE, broker_that, state_text};
use crate::zmtp_server::worker_with_lead;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The log of a worker whose first broker does `script`, and then loses its lead; the second one ends well.
fn log_without_lead(script: &str) -> String {
    let (pod, mut config, _lead) = worker_with_lead();
    pod.broker_does(&format!(
        "[ -e $POD/first ] && exit 0; touch $POD/first; {script}; touch $POD/quorum; while :; do sleep 0.02; done"
    ));
    config.shutdown.grace_seconds = 2;
    let waits = pod.at("quorum");
    // Asked once for its own state and once for the lead's; the next broker is asked in vain.
    let asked = AtomicUsize::new(0);
    broker_that(&pod.layout().local_socket(), move |topic, _| {
        if topic != "state-machine.get" {
            return Err(NO_SERVICE);
        }
        if !waits.exists() {
            return Ok(state_text("init"));
        }
        match asked.fetch_add(1, Ordering::SeqCst) {
            0 => Ok(state_text("quorum")),
            1 => Err(UNREACHABLE),
            _ => Err(NO_SERVICE),
        }
    });
    pod.run(&config).with_code(0).log
}

#[test]
fn a_broker_without_its_lead_is_asked_to_end_and_killed_if_it_does_not() {
    let killed = "the broker has not ended in its time: killing it";
    for (script, is_killed) in [("trap 'exit 3' TERM", false), ("trap '' TERM", true)] {
        let log = log_without_lead(script);
        assert!(
            log.contains("the lead broker is gone: ending this one to look for it anew"),
            "{log}"
        );
        assert!(log.contains("the lead broker was gone; starting it again"), "{log}");
        assert_eq!(log.contains(killed), is_killed, "{log}");
    }
}
