//! A worker whose broker loses its lead, or ends with its parent: whole runs of the real binary.

use crate::pod::broker::{NO_SERVICE, STATE_OF_LEAD, UNREACHABLE, broker_that, state_text};
use crate::zmtp_server::worker_with_lead;
use std::fs;

/// The log of a worker whose first broker does `script`, and then loses its lead; the second one ends with it.
fn log_without_lead(script: &str) -> String {
    let (pod, mut config, _lead) = worker_with_lead();
    pod.broker_does(&format!(
        "[ -e $POD/first ] && end_with_lead; touch $POD/first; {script}; touch $POD/quorum; while :; do sleep 0.02; done"
    ));
    config.shutdown.grace_seconds = 2;
    let [waits, ends, asked] = ["quorum", "ends", "lead-asked"].map(|name| pod.at(name));
    broker_that(&pod.layout().local_socket(), move |topic, _| match topic {
        "state-machine.get" if ends.exists() => Ok(state_text("shutdown")),
        "state-machine.get" if waits.exists() => Ok(state_text("quorum")),
        "state-machine.get" => Ok(state_text("init")),
        STATE_OF_LEAD if ends.exists() => {
            fs::write(&asked, "").unwrap();
            Ok(state_text("cleanup"))
        }
        STATE_OF_LEAD => {
            // The next broker does not wait any more.
            fs::remove_file(&waits).unwrap();
            Err(UNREACHABLE)
        }
        _ => Err(NO_SERVICE),
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

/// In a tree, a broker ends well with the one above it.
#[test]
fn a_broker_that_ends_well_while_the_lead_goes_on_is_started_again() {
    let (pod, config, _lead) = worker_with_lead();
    fs::write(pod.at("lead"), "run").unwrap();
    pod.broker_does(
        "[ -e $POD/first ] || { touch $POD/first; end_with_lead; }
        rm -f $POD/lead; end_with_lead",
    );
    let log = pod.run(&config).with_code(0).log;
    assert!(log.contains("the broker ended, and the lead goes on; starting it again in"), "{log}");
    assert_eq!(pod.message().restarts, 1, "{log}");
}

#[test]
fn a_worker_whose_lead_has_not_answered_stays_with_one_that_listens() {
    let (pod, config, _lead) = worker_with_lead();
    pod.broker_does("[ -e $POD/first ] && end_with_lead; touch $POD/first; exit 0");
    let log = pod.run(&config).with_code(0).log;
    assert!(log.contains("looking whether the lead goes, too"), "{log}");
    assert!(log.contains("the broker ended, and the lead goes on"), "{log}");
}
