//! The pods beside the Job's template: that of the services, and the label of the lead.

use crate::support::world::{CONFIG, JOB, World, finish, of_the_job, patch, put_pods};
use kube::runtime::controller::Action;
use serde_json::{Value, json};
use std::time::Duration;

const CORE_EVENTS: &str = "/api/v1/namespaces/work/events";
const SERVICES: &str = "/api/v1/namespaces/work/pods/hello-services";
const LEAD: &str = "/api/v1/namespaces/work/pods/hello-0-abcde";

/// The running lead of the Job with this uid, without the operator's label.
fn lead_of(uid: &str) -> Value {
    let mut metadata = of_the_job("hello-0-abcde", 0);
    metadata["ownerReferences"][0]["uid"] = json!(uid);
    metadata["labels"].as_object_mut().unwrap().remove("job-index");
    json!({ "metadata": metadata, "status": { "phase": "Running" } })
}

/// A MiniCluster that was reconciled, and has then got a lead of the Job with this uid.
async fn with_lead_of(uid: &str) -> World {
    let world = World::reconciled(&json!({})).await;
    put_pods(&world, vec![lead_of(uid)]);
    world
}

fn index_label(world: &World) -> Value {
    world.server.get(LEAD).unwrap()["metadata"]["labels"]["job-index"].clone()
}

#[tokio::test]
async fn the_lead_of_the_job_gets_its_index_as_a_label_with_one_request() {
    let world = with_lead_of("job-uid").await;
    assert!(world.writes().await.contains(&patch(LEAD)));
    assert_eq!(index_label(&world), "0");
    let bodies = world.server.bodies();
    let label = bodies.iter().find(|body| !body["metadata"]["labels"]["job-index"].is_null());
    let metadata = &label.unwrap()["metadata"];
    assert_eq!(metadata["uid"], "hello-0-abcde");
    assert!(metadata["resourceVersion"].is_null(), "a pod that starts changes all the time");
    assert!(!world.writes().await.contains(&patch(LEAD)));
}

#[tokio::test]
async fn a_lead_that_is_just_being_bound_to_its_node_is_labelled_when_the_node_has_it() {
    let scheduled = |status: &str| json!([{ "type": "PodScheduled", "status": status }]);
    for (status, label) in [
        (json!({ "phase": "Pending" }), Value::Null),
        (json!({ "phase": "Pending", "conditions": scheduled("True") }), Value::Null),
        (json!({ "phase": "Pending", "conditions": scheduled("False") }), json!("0")),
        (json!({ "phase": "Pending", "startTime": "2026-01-01T00:00:00Z" }), json!("0")),
    ] {
        let world = with_lead_of("job-uid").await;
        world.server.change(LEAD, |pod| pod["status"] = status.clone());
        world.reconcile().await.unwrap();
        assert_eq!(index_label(&world), label, "{status}");
    }
}

#[tokio::test]
async fn bug_1a_pods_of_other_jobs_and_of_no_mini_cluster_are_not_labelled() {
    let world = with_lead_of("another-uid").await;
    world.reconcile().await.unwrap();
    assert_eq!(index_label(&world), Value::Null);
    let world = with_lead_of("job-uid").await;
    world.server.change(JOB, |job| job["metadata"]["ownerReferences"] = json!([]));
    assert_eq!(world.reconcile().await.unwrap_err().category(), "NameTaken");
    assert_eq!(index_label(&world), Value::Null);
}

#[tokio::test]
async fn bug_1b_a_pod_without_any_label_is_no_trouble() {
    let world = with_lead_of("job-uid").await;
    world.server.change(LEAD, |pod| pod["metadata"]["labels"] = Value::Null);
    world.reconcile().await.unwrap();
    assert_eq!(index_label(&world), Value::Null);
}

#[tokio::test]
async fn a_pod_that_has_taken_the_name_since_is_not_labelled() {
    let world = with_lead_of("job-uid").await;
    let mut other = lead_of("job-uid");
    other["metadata"]["uid"] = json!("another");
    world.server.intrude(LEAD, other);
    world.reconcile().await.unwrap();
    assert_eq!(index_label(&world), Value::Null);
}

#[tokio::test]
async fn a_label_that_is_refused_is_an_error_with_its_cause_and_stops_nothing_else() {
    let world = with_lead_of("job-uid").await;
    world.server.refuse(LEAD, 403, "pods are forbidden");
    world.server.remove(CONFIG);
    let error = world.reconcile().await.unwrap_err().chain();
    assert!(error.contains("hello-0-abcde") && error.contains("forbidden"), "{error}");
    assert!(world.server.get(CONFIG).is_some());
    assert_eq!(world.condition("Progressing").1, "ApplyFailed");
}

fn pod(name: &str, phase: &str, conditions: &Value) -> Value {
    let index = name.split('-').nth(1).unwrap().parse().unwrap();
    let status = json!({ "phase": phase, "conditions": conditions });
    json!({ "metadata": of_the_job(name, index), "status": status })
}

/// A lead that runs, whose broker is ready.
fn lead() -> Value {
    let condition = json!([{ "type": "Ready", "status": "True" }]);
    let mut pod = pod("hello-0-a", "Running", &condition);
    pod["status"]["containerStatuses"] = json!([{
        "name": "hello", "image": "", "imageID": "", "ready": true, "started": true,
        "restartCount": 0, "state": { "running": {} },
    }]);
    pod
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
    let pods = [("hello-1-b", "Running"), ("hello-2-c", "Failed")];
    let pods = pods.map(|(name, phase)| {
        let mut pod = pod(name, phase, &json!([]));
        pod["status"]["containerStatuses"] = json!([{
            "name": "hello", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": { "exitCode": 68, "message": left } },
        }]);
        pod
    });
    put_pods(&world, pods.to_vec());
    world.reconcile().await.unwrap();
    let (_, reason, message) = world.condition("Failed");
    assert_eq!(reason, "LeadUnreachable");
    assert!(message.starts_with("pod hello-2-c: "), "{message}");
}

#[tokio::test]
async fn a_worker_without_a_node_is_reported_and_looked_at_again_until_all_are_ready() {
    let world = World::reconciled(&json!({})).await;
    let full = "0/1 nodes are available: 1 Insufficient cpu.";
    let condition = json!([{ "type": "PodScheduled", "status": "False", "message": full }]);
    running(&world, 3, vec![pod("hello-3-d", "Pending", &condition)]);
    let soon = Action::requeue(Duration::from_secs(10));
    assert_eq!(world.action().await.unwrap(), soon);
    let (_, reason, message) = world.condition("Progressing");
    assert_eq!(reason, "Waiting");
    assert_eq!(message, format!("pod hello-3-d has no node: {full}"));
    assert!(world.events().contains(&(reason, message)));
    running(&world, 4, vec![lead()]);
    assert_eq!(world.action().await.unwrap(), Action::await_change());
    assert_eq!(world.condition("Progressing").1, "Running");
}

#[tokio::test]
async fn pods_that_the_api_server_refuses_become_a_condition_that_says_why_and_goes_again() {
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
async fn a_services_pod_that_does_not_start_is_named_while_the_lead_is_awaited() {
    let services = json!([{ "image": "registry", "name": "registry" }]);
    let world = World::reconciled(&json!({ "services": services })).await;
    world.server.change(SERVICES, |pod| {
        pod["status"] = json!({ "phase": "Pending", "containerStatuses": [{
            "name": "registry", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } },
        }] });
    });
    world.reconcile().await.unwrap();
    let (_, reason, message) = world.condition("Progressing");
    assert_eq!(reason, "Waiting");
    assert!(message.contains("hello-services") && message.contains("no such image"), "{message}");
}

#[tokio::test]
async fn a_lead_is_found_among_pods_of_others_with_its_labels() {
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
