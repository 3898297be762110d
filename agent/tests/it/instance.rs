//! `flux-agent instance`: what the services of an instance answer, as programs read it.

use crate::pod::Pod;
use crate::pod::broker::broker_that;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

fn set(rank: &str, cores: &str) -> Value {
    json!({ "version": 1, "execution": {
        "R_lite": [{ "rank": rank, "children": { "core": cores } }],
    }})
}

#[test]
fn ranks_and_jobs_are_those_of_the_instance_and_the_output_that_of_the_job() {
    let pod = Pod::new();
    pod.write_config(&pod.config(&["true"]));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&asked);
    broker_that(&pod.layout().local_socket(), move |topic, payload| {
        record.lock().unwrap().push(format!("{topic} {payload}"));
        let answer = match topic {
            "resource.sched-status" => {
                json!({ "all": set("0-1", "0-1"), "allocated": set("0", "0") })
            }
            "resource.status" => {
                json!({ "drain": { "1": { "reason": "bad fan" } }, "offline": "" })
            }
            "job-list.list" => {
                json!({ "jobs": [{ "id": 1, "userid": 7, "state": 16, "name": "a" }] })
            }
            "job-info.lookup" => {
                let event = json!({ "name": "data", "context": { "data": "hello\n" } });
                json!({ "id": 1, "guest.output": event.to_string() })
            }
            _ => return Err(38),
        };
        Ok(answer.to_string())
    });
    let answer = pod.ask("instance", &["--all", "--output-of", "ƒ2"]).with_code(0);
    let report: Value = serde_json::from_str(&answer.output).unwrap();
    assert_eq!(report["ranks"][0]["coresAllocated"], 1, "{report}");
    assert_eq!(report["ranks"][1]["drained"], "bad fan", "{report}");
    assert_eq!(report["ranks"][1]["up"], true, "{report}");
    assert_eq!(
        (&report["jobs"][0]["id"], &report["jobs"][0]["state"]),
        (&"ƒ2".into(), &"RUN".into())
    );
    assert_eq!(report["output"], "hello\n");
    let asked = asked.lock().unwrap().join("\n");
    assert!(asked.contains(r#"{"states":["pending","running","inactive"]}"#), "{asked}");
    assert!(asked.contains(r#""id":1"#), "{asked}");
}

#[test]
fn without_a_broker_the_answer_names_the_socket_and_where_to_look() {
    let pod = Pod::new();
    pod.write_config(&pod.config(&["true"]));
    let ended = pod.ask("instance", &[]).with_code(76);
    assert!(ended.log.contains("run/flux/local") && ended.log.contains("not up"), "{}", ended.log);
    pod.ask("instance", &["--output-of", "x"]).with_code(64).with_log("no id of a job");
}
