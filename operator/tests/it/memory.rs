//! The operator with outdated objects in the stores of its watches.

use crate::prelude::*;
use flux_operator::controller::{Scope, run};
use std::cell::Cell;
use tokio::sync::oneshot;

/// Longest time for one test.
const DEADLINE: Duration = Duration::from_secs(30);

/// Watches of the controller: `MiniClusters`, Jobs, Services, `ConfigMaps`, services pods and leads.
const WATCHES: usize = 6;

/// Runs the controller until `seen` is true, then stops it. Its watches deliver no changes of the kinds in `held`. The
/// MiniCluster is created after all watches have begun.
async fn run_until(world: &World, held: &[&'static str], seen: impl Fn() -> bool) {
    let cluster = world.server.get(CLUSTER).unwrap();
    world.server.remove(CLUSTER);
    world.server.deliver_all_except(held);
    let (stop, stopped) = oneshot::channel::<()>();
    let scope = Scope { namespace: Some("work".to_owned()), concurrency: 1 };
    let shutdown = async {
        // A failed test drops the sender, which also ends this.
        let _ = stopped.await;
    };
    let controller = tokio::spawn(run(Arc::clone(&world.context), scope, || {}, shutdown));
    let waiting = async {
        while world.server.watches() < WATCHES {
            tokio::task::yield_now().await;
        }
        world.server.put(CLUSTER, cluster);
        while !seen() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.unwrap();
    stop.send(()).unwrap();
    tokio::time::timeout(DEADLINE, controller).await.unwrap().unwrap();
}

#[tokio::test]
async fn no_run_begins_on_what_a_watch_has_brought() {
    let world = World::reconciled(&json!({})).await;
    let old = world.server.get(CONFIG).unwrap();
    finish(&world, "Complete", 0);
    world.reconcile().await.unwrap();
    let noted = world.server.get(CONFIG).unwrap();
    assert_ne!(old["metadata"]["annotations"], noted["metadata"]["annotations"]);
    world.server.remove(JOB);
    world.server.put(CONFIG, old);
    world.server.intrude(CONFIG, noted);
    world.writes_so_far();
    run_until(&world, &["configmaps"], || {
        world.server.requests(&format!("GET {CONFIG}")) + world.server.requests(&create(JOB)) > 0
    })
    .await;
    assert_eq!(world.server.requests(&create(JOB)), 0, "{:?}", world.writes_so_far());
}

/// Labels do not change the generation, and a suspended MiniCluster is not polled.
#[tokio::test]
async fn a_changed_queue_label_is_seen_at_once() {
    let world = World::reconciled(&json!({ "suspend": true })).await;
    world.server.writes();
    let changed = Cell::new(false);
    // Another operator has to read the MiniCluster.
    run_until(&world.with_another_operator(), &[], || {
        if world.server.requests(&format!("GET {CLUSTER}")) > 0 && !changed.replace(true) {
            world.server.change(CLUSTER, |object| {
                object["metadata"]["labels"] = json!({ "kueue.x-k8s.io/queue-name": "team" });
            });
        }
        world.condition("Accepted").1 == "Invalid"
    })
    .await;
}

#[tokio::test]
async fn a_write_conflict_is_decided_again_after_a_second() {
    let world = World::reconciled(&json!({})).await;
    world.server.change(SERVICE, |service| service["spec"]["ports"] = json!([]));
    let changed = world.server.get(SERVICE).unwrap();
    world.server.intrude(SERVICE, changed);
    world.writes_so_far();
    let caught_up = Cell::new(false);
    run_until(&world, &["services"], || {
        if world.server.requests(&patch(SERVICE)) > 0 && !caught_up.replace(true) {
            world.server.deliver_all_except(&[]);
        }
        world.server.get(SERVICE).unwrap()["spec"]["ports"] != json!([])
    })
    .await;
    let writes = world.writes_so_far();
    let patches = writes.iter().filter(|write| **write == patch(SERVICE)).count();
    assert_eq!(patches, 2, "{writes:?}");
}
