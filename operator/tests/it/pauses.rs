//! MiniClusters that wait in a queue, or whose namespace is deleted.

use crate::support::world::{CLUSTER, JOB, World, create, of_the_job, put_pods};
use kube::runtime::controller::Action;
use serde_json::json;

const NAMESPACE: &str = "/api/v1/namespaces/work";

fn delete(path: &str) -> String {
    format!("DELETE {path}")
}

#[tokio::test]
async fn a_minicluster_does_not_delay_the_deletion_of_its_namespace() {
    let world = World::reconciled(&json!({})).await;
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

/// The Job controller cannot make pods there, and counts failed ones only when it has.
#[tokio::test]
async fn a_namespace_is_deleted_though_the_job_counts_the_pods_that_were_deleted_first() {
    let world = World::reconciled(&json!({})).await;
    world.server.change(JOB, |job| {
        job["status"] = json!({ "startTime": "2026-01-01T00:00:00Z", "active": 4 });
    });
    let now = "2026-01-01T00:01:00Z";
    world.server.put(
        NAMESPACE,
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": "work", "deletionTimestamp": now },
        }),
    );
    let mut metadata = of_the_job("hello-0-a", 0);
    metadata["deletionTimestamp"] = json!(now);
    metadata["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
    let lead = json!({ "metadata": metadata, "status": { "phase": "Failed", "startTime": now } });
    put_pods(&world, vec![lead]);
    assert_eq!(world.writes().await.last(), Some(&delete(CLUSTER)));
}

#[tokio::test]
async fn a_job_in_a_queue_has_the_labels_of_it() {
    let world = World::new(&json!({}));
    let queue = json!({ "kueue.x-k8s.io/queue-name": "team", "other": "label" });
    let annotations = json!({ "provreq.kueue.x-k8s.io/maxRunDurationSeconds": "60", "other": "1" });
    world.server.change(CLUSTER, |object| {
        object["metadata"]["labels"] = queue;
        object["metadata"]["annotations"] = annotations;
    });
    assert!(world.writes().await.contains(&create(JOB)));
    let metadata = world.server.get(JOB).unwrap()["metadata"].clone();
    assert_eq!(metadata["labels"]["kueue.x-k8s.io/queue-name"], "team");
    let annotations = &metadata["annotations"];
    assert_eq!(annotations["provreq.kueue.x-k8s.io/maxRunDurationSeconds"], "60");
    assert!(metadata["labels"]["other"].is_null() && annotations["other"].is_null());
    world.server.change(JOB, |job| job["spec"]["suspend"] = json!(true));
    assert_eq!(world.action().await.unwrap(), Action::await_change());
    let (_, reason, message) = world.condition("Suspended");
    assert!(reason == "InQueue" && message.starts_with("waits in the queue team; "), "{message}");
}
