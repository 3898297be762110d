//! A worker whose broker loses its lead, or ends with its parent: whole runs of the real binary.

use crate::pod::broker::{STATE_OF_LEAD, UNREACHABLE};
use crate::prelude::*;

/// The first broker of a worker loses its lead; the second one ends with it.
#[test]
fn a_broker_without_its_lead_is_ended() {
    for (script, is_killed) in [("trap 'exit 3' TERM", false), ("trap '' TERM", true)] {
        let (pod, mut config, _lead) = worker_with_lead();
        pod.broker_does(&format!(
            "[ -e $POD/first ] && end_with_lead; touch $POD/first; {script}; touch $POD/quorum; while :; do sleep 0.02; done"
        ));
        config.shutdown.grace_seconds = 2;
        let [waits, ends, asked] = ["quorum", "ends", "lead-asked"].map(|name| pod.at(name));
        broker_that(pod.layout().local_socket(), move |topic, _| match topic {
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
        let ended = pod.run(&config).with_code(0);
        let ended = ended.with_log("the lead broker is gone: ending this one to look for it anew");
        let log = ended.with_log("the lead broker was gone; starting it again").log;
        let killed = "the broker has not ended in its time: killing it";
        assert_eq!(log.contains(killed), is_killed, "{log}");
    }
}

/// In a tree, a broker ends well with the one above it. A lead that has not answered goes on if it listens.
#[test]
fn a_broker_is_restarted_while_the_lead_goes_on() {
    for (lead_answers, ends) in [(true, "end_with_lead"), (false, "exit 0")] {
        let (pod, config, _lead) = worker_with_lead();
        if lead_answers {
            fs::write(pod.at("lead"), "run").unwrap();
        }
        pod.broker_does(&format!(
            "[ -e $POD/first ] || {{ touch $POD/first; {ends}; }}
            rm -f $POD/lead; end_with_lead"
        ));
        let log = pod.run(&config).with_code(0).log;
        let again = "the broker ended, and the lead goes on; starting it again in";
        assert!(log.contains(again), "{log}");
        let looked = log.contains("looking whether the lead goes, too");
        assert_eq!((pod.message().restarts, looked), (1, !lead_answers), "{log}");
    }
}
