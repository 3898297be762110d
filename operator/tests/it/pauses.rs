//! How long a MiniCluster may take to start, is suspended, and stays when it has finished.

use crate::support::world::{
    CLUSTER, CONFIG, JOB, SERVICE, World, create, finish, of_the_job, patch, put_pods, status,
};
use flux_operator::crd::State;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// A list of Kueue's API as the API server serves it, and the Workload of the Job.
const WORKLOADS: &str = "/apis/kueue.x-k8s.io/v1beta2/namespaces/work/workloads";

/// Where everything lies.
const NAMESPACE: &str = "/api/v1/namespaces/work";

fn delete(path: &str) -> String {
    format!("DELETE {path}")
}

/// Seconds after which `world` is reconciled again.
async fn again(world: &World) -> Option<u64> {
    let action = world.action().await.unwrap();
    let text = format!("{action:?}");
    let seconds = text.split("Some(").nth(1)?.split(['s', '.']).next()?;
    seconds.parse().ok()
}

#[tokio::test]
async fn a_finished_mini_cluster_stays_as_long_as_it_is_told_to() {
    let world = World::new(&json!({ "ttlSecondsAfterFinished": 3600 }));
    world.reconcile().await.unwrap();
    finish(&world, "Complete", 0);
    let ended = jiff::Timestamp::now() - Duration::from_mins(10);
    world.server.change(JOB, |job| job["status"]["completionTime"] = json!(ended.to_string()));
    world.server.writes();
    let lead = format!("{SERVICE}-lead");
    assert_eq!(world.writes().await, [delete(&lead), patch(CONFIG), status()]);
    let rest = again(&world).await.unwrap();
    assert!((2990..=3000).contains(&rest), "{rest}");
    world.edit(2, |spec| spec["ttlSecondsAfterFinished"] = json!(7200));
    world.reconcile().await.unwrap();
    assert_eq!(world.condition("Progressing").1, "Finished", "nothing else was asked for");
    world.edit(3, |spec| spec["ttlSecondsAfterFinished"] = json!(60));
    world.server.writes();
    assert_eq!(world.writes().await, [status(), delete(CLUSTER)]);
}

#[tokio::test]
async fn a_mini_cluster_whose_namespace_is_deleted_does_not_hold_it_up() {
    let world = World::new(&json!({}));
    world.reconcile().await.unwrap();
    world.server.change(JOB, |job| {
        job["status"] = json!({ "startTime": "2026-01-01T00:00:00Z", "active": 3, "failed": 1 });
    });
    let mut namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "work" },
    });
    world.server.put(NAMESPACE, namespace.clone());
    assert!(!world.writes().await.contains(&delete(CLUSTER)), "a pod is made again");
    namespace["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:01:00Z");
    world.server.put(NAMESPACE, namespace);
    assert_eq!(world.writes().await.last(), Some(&delete(CLUSTER)));
}

#[tokio::test]
async fn what_does_not_start_in_time_is_ended_by_its_job_and_says_why() {
    let world = World::new(&json!({ "startDeadlineSeconds": 600 }));
    world.reconcile().await.unwrap();
    let start = |before: u64| {
        let start = jiff::Timestamp::now() - Duration::from_secs(before);
        world.server.change(JOB, |job| {
            job["status"] = json!({ "startTime": start.to_string(), "active": 4, "ready": 1 });
        });
    };
    start(595);
    world.server.writes();
    assert!(again(&world).await.unwrap() <= 5);
    assert!(!world.writes_so_far().contains(&patch(JOB)));
    start(601);
    assert!(world.writes().await.contains(&patch(JOB)));
    let job = world.server.get(JOB).unwrap();
    assert_eq!(job["spec"]["activeDeadlineSeconds"], 1);
    // A further reconcile does not take it back.
    assert!(!world.writes().await.contains(&patch(JOB)));
    finish(&world, "Failed", 0);
    put_pods(&world, vec![]);
    world.server.change(JOB, |job| {
        job["status"]["conditions"][0]["reason"] = json!("DeadlineExceeded");
    });
    world.reconcile().await.unwrap();
    let (_, reason, message) = world.condition("Failed");
    assert_eq!(reason, "StartDeadlineExceeded");
    let cause =
        "not running after the 600 seconds of spec.startDeadlineSeconds: 1 of 4 brokers are ready";
    assert_eq!(message, cause);
}

/// The lead of the Job, stopped and deleted, and still there.
fn stopped_lead() -> Value {
    let mut lead = json!({ "metadata": of_the_job("hello-0-aaaaa", 0) });
    lead["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    lead["status"] = json!({
        "phase": "Failed",
        "containerStatuses": [{
            "name": "hello", "image": "app", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": { "exitCode": 75 } },
        }],
    });
    lead
}

#[tokio::test]
async fn a_suspended_mini_cluster_keeps_all_but_its_pods_and_is_resumed() {
    let world = World::new(&json!({}));
    world.reconcile().await.unwrap();
    let pods = |active: i32, terminating: i32| {
        world.server.change(JOB, |job| {
            job["status"] =
                json!({ "active": active, "terminating": terminating, "ready": active });
        });
    };
    pods(4, 0);
    world.edit(2, |spec| spec["suspend"] = json!(true));
    world.server.writes();
    assert_eq!(world.writes().await, [patch(JOB), status()]);
    assert_eq!(world.server.get(JOB).unwrap()["spec"]["suspend"], true);
    assert_eq!(world.condition("Suspended").1, "Suspending");

    pods(0, 0);
    put_pods(&world, vec![stopped_lead()]);
    assert_eq!(world.writes().await, [status()]);
    assert_eq!(world.status().state, Some(State::Suspended));
    assert_eq!((world.status().exit_code, world.condition("Suspended").0), (None, "True".into()));

    world.edit(3, |spec| spec["suspend"] = json!(false));
    assert_eq!(world.writes().await, [patch(JOB), status()]);
    assert_eq!(world.server.get(JOB).unwrap()["spec"]["suspend"], false);
    assert_eq!(world.status().state, Some(State::Pending), "the lead of before is none");
}

#[tokio::test]
async fn a_job_that_somebody_else_has_suspended_is_left_to_them() {
    let world = World::new(&json!({}));
    world.reconcile().await.unwrap();
    world.server.change(JOB, |job| job["spec"]["suspend"] = json!(true));
    world.server.writes();
    assert_eq!(world.writes().await, [status()]);
    assert_eq!(world.condition("Suspended").1, "JobSuspended");
}

/// A MiniCluster with this queue, and this annotation for it.
fn label(world: &World, queue: Option<&str>) {
    world.server.change(CLUSTER, |object| {
        let label = queue.map(|queue| ("kueue.x-k8s.io/queue-name", queue));
        object["metadata"]["labels"] = json!(label.into_iter().collect::<BTreeMap<_, _>>());
        object["metadata"]["annotations"] =
            json!({ "provreq.kueue.x-k8s.io/maxRunDurationSeconds": "60", "other": "1" });
    });
}

#[tokio::test]
async fn what_a_queue_has_admitted_keeps_its_queue_and_its_size_and_says_so() {
    let world = World::new(&json!({ "maxSize": 6 }));
    label(&world, Some("team"));
    world.reconcile().await.unwrap();
    let job = world.server.get(JOB).unwrap();
    let annotations = &job["metadata"]["annotations"];
    assert_eq!(annotations["provreq.kueue.x-k8s.io/maxRunDurationSeconds"], "60");
    assert!(annotations["other"].is_null());

    world.edit(2, |spec| spec["size"] = json!(2));
    world.server.writes();
    assert_eq!(world.writes().await, [status()]);
    let (progressing, reason, message) = world.condition("Progressing");
    assert_eq!((progressing.as_str(), reason.as_str()), ("False", "ChangeRefused"));
    let told = "cannot be changed while the Job exists: spec.size: the queue team has admitted 4 pods, \
                and would stop all of them for 2; delete and create the MiniCluster";
    assert_eq!(message, told);
    world.edit(3, |spec| spec["size"] = json!(4));
    assert_eq!(world.writes().await, [patch(JOB), status()]);
    assert_ne!(world.condition("Progressing").1, "ChangeRefused");

    for other in [Some("another"), None] {
        label(&world, other);
        world.reconcile().await.unwrap();
        let message = world.condition("Progressing").2;
        assert!(message.contains("the label kueue.x-k8s.io/queue-name"), "{message}");
        let job = world.server.get(JOB).unwrap();
        assert_eq!(job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "team");
    }
}

#[tokio::test]
async fn what_waits_in_a_queue_says_what_the_queue_does() {
    let world = World::new(&json!({}));
    let queue = json!({ "kueue.x-k8s.io/queue-name": "team", "other": "label" });
    world.server.change(CLUSTER, |object| object["metadata"]["labels"] = queue);
    assert!(world.writes().await.contains(&create(JOB)));
    let labels = world.server.get(JOB).unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels["kueue.x-k8s.io/queue-name"], "team");
    assert!(labels["other"].is_null());
    world.server.change(JOB, |job| job["spec"]["suspend"] = json!(true));
    world.reconcile().await.unwrap();
    let (_, reason, message) = world.condition("Suspended");
    assert_eq!((reason.as_str(), message.as_str()), ("InQueue", "waits in the queue team"));

    world.server.serves(&[("kueue.x-k8s.io/v1beta2", "workloads", "Workload")]);
    let uid = world.server.get(JOB).unwrap()["metadata"]["uid"].clone();
    let workload = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
        "metadata": { "name": "job-hello", "labels": { "kueue.x-k8s.io/job-uid": uid } },
        "status": { "conditions": [{
            "type": "QuotaReserved", "status": "False", "message": "insufficient quota for cpu",
        }] },
    });
    let label = format!("kueue.x-k8s.io/job-uid={}", uid.as_str().unwrap());
    world.server.replace(WORKLOADS, &label, vec![workload]);
    assert_eq!(again(&world).await, Some(10));
    let message = world.condition("Suspended").2;
    assert_eq!(message, "waits in the queue team: insufficient quota for cpu");
}
