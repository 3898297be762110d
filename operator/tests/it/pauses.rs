//! MiniClusters that wait in a queue, have finished, or whose namespace is deleted.

use crate::support::world::{CLUSTER, CONFIG, JOB, SERVICE, World, create, finish, patch, status};
use serde_json::json;
use std::time::Duration;

/// The namespace of all objects.
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
async fn a_finished_mini_cluster_stays_for_its_time_to_live() {
    let world = World::reconciled(&json!({ "ttlSecondsAfterFinished": 3600 })).await;
    finish(&world, "Complete", 0);
    let ended = jiff::Timestamp::now() - Duration::from_mins(10);
    world.server.change(JOB, |job| job["status"]["completionTime"] = json!(ended.to_string()));
    let lead = format!("{SERVICE}-lead");
    assert_eq!(world.writes().await, [delete(&lead), patch(CONFIG), status()]);
    let rest = again(&world).await.unwrap();
    assert!((2990..=3000).contains(&rest), "{rest}");
    world.edit(2, |spec| spec["ttlSecondsAfterFinished"] = json!(7200));
    world.reconcile().await.unwrap();
    assert_eq!(world.condition("Progressing").1, "Finished", "nothing else was asked for");
    world.edit(3, |spec| spec["ttlSecondsAfterFinished"] = json!(60));
    assert_eq!(world.writes().await, [status(), delete(CLUSTER)]);
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
    assert_eq!(again(&world).await, None);
    let (_, reason, message) = world.condition("Suspended");
    assert!(reason == "InQueue" && message.starts_with("waits in the queue team; "), "{message}");
}
