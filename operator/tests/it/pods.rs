//! Reports about the pods of a run: leads, workers and the pod of `spec.services`.

use crate::support::world::{JOB, World, container, finish, of_the_job, put_pods, ready};
use serde_json::{Value, json};

const CORE_EVENTS: &str = "/api/v1/namespaces/work/events";

#[tokio::test]
async fn bug_1_no_pod_of_anybody_is_written_to() {
    let world = World::reconciled(&json!({})).await;
    let mut stranger = pod("hello-0-abcde", "Running", &json!([]));
    stranger["metadata"]["name"] = json!("stranger");
    stranger["metadata"]["labels"] = Value::Null;
    world.server.put("/api/v1/namespaces/work/pods/stranger", stranger);
    running(&world, 4, vec![lead()]);
    let writes = world.writes().await;
    assert!(!writes.iter().any(|write| write.contains("/pods/")), "{writes:?}");
}

fn pod(name: &str, phase: &str, conditions: &Value) -> Value {
    let index = name.split('-').nth(1).unwrap().parse().unwrap();
    let status = json!({ "phase": phase, "conditions": conditions });
    json!({ "metadata": of_the_job(name, index), "status": status })
}

/// A lead that runs, whose broker is ready.
fn lead() -> Value {
    json!({ "metadata": of_the_job("hello-0-a", 0), "status": ready("hello") })
}

fn running(world: &World, ready: i32, pods: Vec<Value>) {
    world.server.change(JOB, |job| {
        job["status"] = json!({ "startTime": "2026-01-01T00:00:00Z", "active": 4, "ready": ready });
    });
    put_pods(world, pods);
}

#[tokio::test]
async fn the_worker_that_failed_is_found_among_the_pods() {
    let world = World::reconciled(&json!({})).await;
    finish(&world, "Failed", 68);
    let left = r#"{"exitCode":68,"commandRan":false,"lastError":"refused"}"#;
    let end = json!({ "terminated": { "exitCode": 68, "message": left } });
    let pods = [("hello-1-b", "Running"), ("hello-2-c", "Failed")];
    let pods = pods.map(|(name, phase)| {
        let mut pod = pod(name, phase, &json!([]));
        pod["status"]["containerStatuses"] = json!([container("hello", &end)]);
        pod
    });
    put_pods(&world, pods.to_vec());
    world.reconcile().await.unwrap();
    let (_, reason, message) = world.condition("Failed");
    assert_eq!((reason.as_str(), world.status().exit_code), ("LeadUnreachable", None));
    assert!(message.starts_with("pod hello-2-c: "), "{message}");
}

#[tokio::test]
async fn refused_pods_are_a_condition_until_they_are_created() {
    let world = World::reconciled(&json!({})).await;
    let started = |active: i32| json!({ "startTime": "2026-01-01T00:00:00Z", "active": active });
    world.server.change(JOB, |job| job["status"] = started(0));
    let quota = r#"Error creating: pods "hello-0-x" is forbidden: exceeded quota: few"#;
    for (second, uid, reason, message) in [
        (1, "job-uid", "FailedCreate", "older"),
        (2, "job-uid", "FailedCreate", quota),
        (3, "job-uid", "SuccessfulCreate", "another reason"),
        (4, "another", "FailedCreate", "of another Job"),
    ] {
        let name = second.to_string();
        let event = json!({
            "metadata": { "name": name }, "involvedObject": { "uid": uid }, "reason": reason,
            "lastTimestamp": format!("2026-01-01T00:00:0{second}Z"), "message": message,
        });
        world.server.put(&format!("{CORE_EVENTS}/{name}"), event);
    }
    world.reconcile().await.unwrap();
    let (progressing, reason, message) = world.condition("Progressing");
    assert_eq!((progressing.as_str(), reason.as_str()), ("False", "PodsRefused"));
    assert_eq!(message, "pods are refused: forbidden: exceeded quota: few");
    world.server.change(JOB, |job| job["status"] = started(4));
    world.reconcile().await.unwrap();
    assert_eq!(world.condition("Progressing").0, "True");
}

#[tokio::test]
async fn a_lead_is_found_among_foreign_pods_with_its_labels() {
    let world = World::reconciled(&json!({})).await;
    finish(&world, "Failed", 7);
    for number in 0..50 {
        let name = format!("hello-0-{number:05}");
        let mut metadata = of_the_job(&name, 0);
        metadata["ownerReferences"] = json!([]);
        let path = format!("/api/v1/namespaces/work/pods/{name}");
        world.server.put(&path, json!({ "metadata": metadata, "status": { "phase": "Pending" } }));
    }
    world.reconcile().await.unwrap();
    assert_eq!(world.status().exit_code, Some(7));
}
