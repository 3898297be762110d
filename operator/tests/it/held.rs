//! Runs that end while containers that others have added to the pods run on.

use crate::support::world::{JOB, World, container, of_the_job, patch, put_pods};
use flux_api::crd::State;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

const PROXY: &str = "proxy of pod hello-0-a";
const LEAD: &str = "/api/v1/namespaces/work/pods/hello-0-a";

/// A MiniCluster whose lead ended with `code` so many seconds ago, beside a proxy that runs.
async fn ended(code: i32, seconds: i64) -> World {
    let world = World::reconciled(&json!({})).await;
    world.server.change(JOB, |job| {
        job["status"] = json!({ "startTime": "2026-01-01T00:00:00Z", "active": 4, "ready": 3 });
    });
    let end = Timestamp::now() - SignedDuration::from_secs(seconds);
    let end = json!({ "exitCode": code, "finishedAt": end.to_string() });
    let containers = [
        container("proxy", &json!({ "running": { "startedAt": "2026-01-01T00:00:01Z" } })),
        container("hello", &json!({ "terminated": end })),
    ];
    let status = json!({ "phase": "Running", "containerStatuses": containers });
    put_pods(&world, vec![json!({ "metadata": of_the_job("hello-0-a", 0), "status": status })]);
    world.reconcile().await.unwrap();
    world
}

#[tokio::test]
async fn pods_held_by_others_end_after_their_grace_period() {
    for (code, state) in [(0, State::Complete), (7, State::Failed)] {
        let world = ended(code, 5).await;
        assert_eq!((world.status().state, world.status().exit_code), (Some(state), Some(code)));
        let (_, reason, message) = world.condition("Progressing");
        assert!(reason == "Finished" && message.contains(PROXY), "{message}");
        let rest = world.action().await.unwrap();
        let rest = format!("{rest:?}");
        assert!(!world.writes().await.contains(&patch(JOB)), "the grace period has not passed");
        assert!(rest.contains("requeue_after: Some"), "{rest}");

        let world = ended(code, 31).await;
        assert!(world.writes().await.contains(&patch(JOB)));
        let job = world.server.get(JOB).unwrap();
        assert_eq!(job["spec"]["activeDeadlineSeconds"], 1);
        let status = json!({ "type": "Failed", "status": "True", "reason": "DeadlineExceeded" });
        world.server.change(JOB, |job| job["status"]["conditions"] = json!([status]));
        put_pods(&world, vec![]);
        assert!(!world.writes().await.contains(&patch(JOB)));
        assert_eq!((world.status().state, world.status().exit_code), (Some(state), Some(code)));
        let (_, _, message) = world.condition("Progressing");
        assert!(message.contains("logs") && message.contains(PROXY), "{message}");
    }
}

#[tokio::test]
async fn a_lead_that_may_be_replaced_ends_no_run() {
    let world = ended(137, 5).await;
    assert_eq!(world.status().state, Some(State::Ending));
    let (_, _, message) = world.condition("Progressing");
    assert_eq!(message, format!("waiting for containers to end: {PROXY}"));
    assert!(world.server.get(LEAD).is_some(), "the grace period has not passed");
    let world = ended(137, 31).await;
    assert!(world.server.get(LEAD).is_none(), "the Job makes another pod");
    assert_ne!(world.server.get(JOB).unwrap()["spec"]["activeDeadlineSeconds"], 1);
}
