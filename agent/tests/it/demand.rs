//! The pods that the queue of an instance needs, as the lead's agent counts them.

use crate::prelude::*;
use flux_contract::Autoscale;
use std::sync::atomic::AtomicBool;

fn demand(pod: &Pod) -> Option<Value> {
    pod.ask("status", &["--output", "json"]).json().get("demand").cloned()
}

#[test]
fn a_lead_counts_the_pods_that_its_queue_needs() {
    let pod = Pod::new();
    let waits = Arc::new(AtomicBool::new(false));
    let (up, queue) = (pod.at("up"), Arc::clone(&waits));
    broker_that(pod.layout().local_socket(), move |topic, asked| {
        let ranks = |ids: &str| json!({ "rank": ids, "children": { "core": "0-1" } });
        // Frames of this stand-in are short.
        let answer = match topic {
            "state-machine.get" if up.exists() => return Ok(state_text("run")),
            "state-machine.get" => return Ok(state_text("init")),
            "resource.sched-status" => json!({
                "all": { "execution": { "R_lite": [ranks("0-7")] } },
                "allocated": { "execution": { "R_lite": [ranks("0")] } },
            }),
            "job-list.list" => {
                assert!(asked.contains(r#""states":["sched"]"#), "{asked}");
                let waiting = if queue.load(Ordering::SeqCst) { 8 } else { 16 };
                json!({ "jobs": [
                    { "id": 1, "state": waiting, "nnodes": 2, "ntasks": 2 },
                    { "id": 2, "state": 8, "nnodes": 3, "ntasks": 3, "priority": 0 },
                    { "id": 3, "state": 8, "nnodes": 6, "ntasks": 6 },
                ] })
            }
            "resource.status" => json!({}),
            _ => return Err(NO_SERVICE),
        };
        Ok(answer.to_string())
    });
    let mut config = pod.launcher("while [ ! -e $POD/done ]; do sleep 0.02; done");
    config.autoscale = Some(Autoscale { max_size: 5, idle_seconds: 3600 });
    let run = pod.start(&config);
    await_that("it counts the job that runs", || demand(&pod) == Some(json!({ "wanted": 1 })));
    waits.store(true, Ordering::SeqCst);
    await_that("and the one that waits", || demand(&pod) == Some(json!({ "wanted": 3 })));
    fs::write(pod.at("done"), "").unwrap();
    run.end().with_code(0);
}
