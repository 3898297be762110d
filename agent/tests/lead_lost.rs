//! A worker that loses its lead while its broker waits for the quorum: whole runs of the real binary.

mod pod;
mod support;

use pod::broker::broker_that;
use pod::{Pod, code, stderr};
use std::sync::atomic::{AtomicUsize, Ordering};

/// `EHOSTUNREACH`: the broker has no way to the lead.
const UNREACHABLE: u8 = 113;
/// `ENOSYS`.
const NO_SERVICE: u8 = 38;

/// The log of a worker whose first broker does `script`, and then loses its lead; the second one ends well.
fn log_without_lead(script: &str) -> String {
    let pod = Pod::called("hello-1");
    pod.broker_does(&format!(
        "[ -e $POD/first ] && exit 0; touch $POD/first; {script}; touch $POD/quorum; while :; do sleep 0.02; done"
    ));
    let (_lead, port) = support::lead(&pod::certificate());
    let mut config = pod.config(&["true"]);
    config.network.port = port;
    config.shutdown.grace_seconds = 2;
    let waits = pod.at("quorum");
    // Asked once for its own state and once for the lead's; the next broker is asked in vain.
    let asked = AtomicUsize::new(0);
    broker_that(&pod.layout().local_socket(), move |topic, _| {
        if topic != "state-machine.get" {
            return Err(NO_SERVICE);
        }
        if !waits.exists() {
            return Ok("{\"state\":\"init\"}".to_owned());
        }
        match asked.fetch_add(1, Ordering::SeqCst) {
            0 => Ok("{\"state\":\"quorum\"}".to_owned()),
            1 => Err(UNREACHABLE),
            _ => Err(NO_SERVICE),
        }
    });
    let output = pod.run(&config);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    stderr(&output)
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
