//! The numbers of jobs in the termination message.

use crate::prelude::*;
use flux_contract::JobNumbers;
use std::fs::OpenOptions;
use std::io::Write as _;

const COUNTS: &str = r#"{"job_states":{"depend":1,"sched":1,"run":1,"inactive":10},"successful":1,"failed":2,"canceled":3,"timeout":4}"#;
const NUMBERS: JobNumbers =
    JobNumbers { successful: 1, failed: 2, canceled: 3, timed_out: 4, unfinished: 1, not_run: 2 };

#[test]
fn a_command_ends_with_the_numbers_of_its_jobs() {
    for (answer, expected) in [(Some(COUNTS), Some(NUMBERS)), (None, None), (Some("3"), None)] {
        let pod = Pod::new();
        if let Some(answer) = answer {
            fs::write(pod.at("jobs"), answer).unwrap();
        }
        pod.start(&pod.launcher("exit 3")).end().with_code(3);
        assert_eq!(pod.message().jobs, expected, "{answer:?}");
    }
}

/// Nobody tells the agent that somebody shuts the instance down.
#[test]
fn the_jobs_of_an_interactive_instance_are_counted_while_it_ends() {
    let (pod, mut config) = Pod::with(&[]);
    config.workload = Workload::Interactive { submission: None };
    let [runs, ends, counted] = ["runs", "ends", "counted"].map(|name| pod.at(name));
    broker_that(pod.layout().local_socket(), move |topic, _| match topic {
        "state-machine.get" if ends.exists() => Ok(state_text("cleanup")),
        "state-machine.get" => {
            fs::write(&runs, "").map(|()| state_text("run")).map_err(|_| NO_SERVICE)
        }
        "state-machine.monitor" => {
            while !ends.exists() && runs.parent().unwrap().exists() {
                std::thread::park_timeout(Duration::from_millis(10));
            }
            Ok(state_text("cleanup"))
        }
        "job-list.job-stats" => {
            let file = OpenOptions::new().create(true).append(true).open(&counted);
            file.and_then(|mut file| file.write_all(b".")).map_err(|_| NO_SERVICE)?;
            Ok(COUNTS.to_owned())
        }
        _ => Err(NO_SERVICE),
    });
    // The second request shows that the first answer has arrived.
    let counted_twice =
        "until [ -e $POD/counted ] && [ $(wc -c < $POD/counted) -ge 2 ]; do sleep 0.02; done";
    pod.broker_does(&format!(
        "until [ -e $POD/runs ]; do sleep 0.02; done; touch $POD/ends; {counted_twice}; exit 0"
    ));
    pod.run(&config).with_code(0);
    assert_eq!(pod.message().jobs, Some(NUMBERS));
}
