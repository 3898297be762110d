//! `flux-agent instance`: the answers of an instance's services as JSON.

use crate::pod::broker::Answers;
use crate::prelude::*;
use std::sync::Mutex;

fn set(rank: &str, cores: &str) -> Value {
    json!({ "version": 1, "execution": {
        "R_lite": [{ "rank": rank, "children": { "core": cores } }],
    }})
}

#[test]
fn the_report_has_ranks_jobs_and_output() {
    let pod = Pod::new();
    pod.write_config(&pod.config(&["true"]));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&asked);
    broker_that(pod.layout().local_socket(), move |topic, payload| {
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
                json!({ "id": 1, "eventlog": json!({ "name": "start" }).to_string() })
            }
            "job-info.eventlog-watch" => return Ok(much_output()),
            _ => return Err(38),
        };
        Ok(Answers::from(answer.to_string()))
    });
    let report = pod.ask("instance", &["--all", "--output-of", "ƒ2"]).with_code(0).json();
    assert_eq!(report["ranks"][0]["coresAllocated"], 1, "{report}");
    assert_eq!(report["ranks"][1]["drained"], "bad fan", "{report}");
    assert_eq!(report["ranks"][1]["up"], true, "{report}");
    assert_eq!(report["jobs"][0]["id"], "ƒ2", "{report}");
    assert_eq!(report["jobs"][0]["state"], "RUN", "{report}");
    let output = report["output"].as_str().unwrap();
    assert!(output.ends_with(" hello\n") && output.len() <= 64 << 10, "{}", output.len());
    assert_eq!(report["outputIsCut"], true);
    let asked = asked.lock().unwrap().join("\n");
    assert!(asked.contains(r#"{"states":["pending","running","inactive"]}"#), "{asked}");
    assert!(asked.contains(r#""id":1"#), "{asked}");
}

/// More than fits into one message of a broker.
fn much_output() -> Answers {
    let line = json!({ "name": "data", "context": { "data": format!("{:01000} hello\n", 1) } });
    let entry = json!({ "event": line.to_string() }).to_string();
    // After the mark the broker would wait for more output.
    Answers::as_they_come(std::iter::repeat_n(entry, 5000).chain([String::new()]))
}

#[test]
fn output_that_cannot_be_read_is_an_error() {
    let ask = |log: &'static str| {
        let pod = Pod::new();
        pod.write_config(&pod.config(&["true"]));
        broker_that(pod.layout().local_socket(), move |topic, _| match topic {
            "resource.sched-status" | "resource.status" => Ok("{}".to_owned()),
            "job-list.list" => Ok(json!({ "jobs": [] }).to_string()),
            "job-info.lookup" => Ok(json!({ "eventlog": log }).to_string()),
            _ => Err(38),
        });
        pod.ask("instance", &["--output-of", "ƒ2"])
    };
    let failed = ask(r#"{"name":"start"}"#).with_code(76);
    failed.with_log("job-info.eventlog-watch with errno 38");
    let report = ask(r#"{"name":"submit"}"#).with_code(0).json();
    assert_eq!((&report["output"], &report["outputIsCut"]), (&"".into(), &Value::Null));
}
