//! A new operator among many MiniClusters, most of which have finished.

use crate::prelude::*;

const UID: &str = "11111111-2222-3333-4444-555555555555";
const MINICLUSTERS: usize = 200;

/// A server with so many MiniClusters that have finished and are recorded, each with what is left of its objects.
async fn finished() -> World {
    let containers = json!([{ "image": "app", "command": "true" }]);
    let world = World::reconciled(&json!({ "containers": containers })).await;
    finish(&world, "Complete", 0);
    // The first reports the end, and records it.
    world.reconcile().await.unwrap();
    world.reconcile().await.unwrap();
    let pods = world.server.paths(PODS);
    let all = [CLUSTER, JOB, CONFIG, SERVICE].map(str::to_owned).into_iter().chain(pods);
    for path in all {
        let text = world.server.get(&path).unwrap().to_string();
        for number in 1..MINICLUSTERS {
            let name = format!("hello{number}");
            let uid = format!("{number:08}{}", &UID[8..]);
            let other = text.replace("hello", &name).replace(UID, &uid);
            let other = other.replace("job-uid", &format!("job-{number}"));
            world.server.put(&path.replace("hello", &name), serde_json::from_str(&other).unwrap());
        }
    }
    world
}

#[tokio::test]
async fn the_pods_of_a_reported_run_are_not_read() {
    let world = World::reconciled(&json!({})).await;
    finish(&world, "Failed", 7);
    world.reconcile().await.unwrap();
    let status = world.status();
    let other = world.with_another_operator();
    assert_eq!(other.writes().await, [""; 0]);
    assert_eq!(other.server.requests(&format!("GET {PODS}")), 0);
    world.server.change(CLUSTER, |object| object["status"]["state"] = json!("Running"));
    other.reconcile().await.unwrap();
    assert_eq!(world.status().state, status.state, "what was not reported is read again");
}

#[tokio::test]
async fn a_restart_lists_nothing_of_what_has_finished() {
    let world = finished().await;
    world.server.writes();
    let before = world.server.journal().len();
    let new = world.with_another_operator();
    let controller = tokio::spawn(control(Arc::clone(&new.context)));
    let count = |what: &str| {
        let journal = world.server.journal();
        journal[before..].iter().filter(|line| line.contains(what)).count()
    };
    until("all ConfigMaps to be read", || count("/configmaps/") >= MINICLUSTERS).await;
    controller.abort();
    let journal = world.server.journal();
    let is_list = |line: &&String| !line.contains("watch=true") && line.contains("limit=");
    let lists: Vec<&String> = journal[before..].iter().filter(is_list).collect();
    assert!(lists.is_empty(), "{lists:?}");
    let requests = journal.len() - before;
    let last = &journal[journal.len() - 12..];
    assert!(requests <= 3 * MINICLUSTERS + 10, "{requests} requests, at last {last:#?}");
    assert_eq!(world.writes_so_far(), [""; 0]);
}
