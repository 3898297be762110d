//! `spec.runId`: a finished MiniCluster runs again.

use crate::support::world::{
    CLUSTER, CONFIG, JOB, SECRETS, World, create, finish, marker_of, patch, put_pods, status,
};
use flux_api::crd::State;
use flux_operator::controller::reconcile_one;
use serde_json::{Value, json};
use std::sync::Arc;

/// Deletes the Job with its pods, as Kubernetes does when its time to live is over.
fn expire(world: &World) {
    assert_eq!(world.server.get(JOB).unwrap()["spec"]["ttlSecondsAfterFinished"], 0);
    put_pods(world, vec![]);
    world.server.remove(JOB);
}

fn run_keys(world: &World) -> Vec<String> {
    let data = world.server.get(CONFIG).unwrap()["data"].clone();
    let keys = data.as_object().unwrap().keys().filter(|key| key.starts_with("run-"));
    keys.cloned().collect()
}

/// The ids, states and exit codes in the history.
fn history(world: &World) -> Vec<(Option<String>, Option<State>, Option<i32>)> {
    let runs = world.status().history.into_iter();
    runs.map(|run| (run.run_id, run.state, run.exit_code)).collect()
}

#[tokio::test]
async fn a_changed_run_id_clears_the_ended_run_and_begins_another() {
    let world = World::reconciled(&json!({})).await;
    let (keys, secrets) = (run_keys(&world), world.server.paths(SECRETS));
    finish(&world, "Failed", 7);
    world.reconcile().await.unwrap();
    let first = (None, Some(State::Failed), Some(7));
    assert_eq!(history(&world), std::slice::from_ref(&first));

    world.edit(2, |spec| (spec["runId"], spec["size"]) = (json!("b"), json!(2)));
    assert_eq!(world.writes().await, [patch(JOB), status()]);
    let cleared = world.status();
    assert_eq!((cleared.state, cleared.exit_code), (Some(State::Pending), None));
    assert_eq!(cleared.observed_generation, Some(2));
    assert_eq!(world.writes().await, [""; 0], "Kubernetes deletes the Job");
    // Another operator finds the same.
    assert_eq!(world.with_another_operator().writes().await, [""; 0]);
    expire(&world);
    let writes = world.writes().await;
    assert!(writes.contains(&create(JOB)) && writes.contains(&patch(CONFIG)), "{writes:?}");
    assert_eq!(world.server.get(JOB).unwrap()["spec"]["completions"], 2);
    assert_eq!(
        world.server.paths(SECRETS),
        secrets,
        "the certificate is that of the specification"
    );
    let new_keys = run_keys(&world);
    assert!(new_keys.len() == 1 && new_keys != keys, "{keys:?} {new_keys:?}");

    finish(&world, "Complete", 0);
    world.server.change(JOB, |job| job["status"]["startTime"] = json!("2026-01-01T00:00:30Z"));
    world.reconcile().await.unwrap();
    assert_eq!(history(&world), [(Some("b".to_owned()), Some(State::Complete), Some(0)), first]);
    assert_eq!(world.status().run_id.as_deref(), Some("b"));
    assert_eq!(world.writes().await, [""; 0]);
}

#[tokio::test]
async fn a_run_id_that_changes_while_a_run_goes_on_waits_for_its_end() {
    let world = World::reconciled(&json!({ "runId": "a", "cleanup": true })).await;
    let command = |spec: &mut Value| spec["containers"][0]["command"] = json!("echo again");
    world.edit(2, |spec| {
        spec["runId"] = json!("b");
        command(spec);
    });
    world.reconcile().await.unwrap();
    let (_, reason, message) = world.condition("Accepted");
    assert!(reason == "Accepted" && message.contains("spec.runId, spec.containers[0].command"));
    assert_ne!(world.condition("Progressing").1, "ChangeRefused");
    finish(&world, "Complete", 0);
    world.reconcile().await.unwrap();
    let ended = world.status();
    assert_eq!(ended.state, Some(State::Complete), "the end is reported");
    let of = ended.conditions.iter().map(|condition| condition.observed_generation);
    let of: Vec<_> = of.chain([ended.observed_generation]).collect();
    assert!(
        of.iter().all(|of| *of == Some(1)),
        "tools would take it for the end of the next run: {of:?}"
    );
    assert!(world.server.get(CLUSTER).is_some(), "it is not deleted before the next run");
    world.reconcile().await.unwrap();
    expire(&world);
    world.reconcile().await.unwrap();
    let next = world.status();
    assert_eq!((next.state, next.observed_generation), (Some(State::Pending), Some(2)));
    finish(&world, "Complete", 0);
    world.reconcile().await.unwrap();
    assert!(world.server.get(CLUSTER).is_none(), "the last run is cleaned up");
}

#[tokio::test]
async fn only_the_newest_finished_miniclusters_of_a_namespace_are_kept() {
    let world = World::reconciled(&json!({})).await;
    finish(&world, "Complete", 0);
    world.reconcile().await.unwrap();
    let mut other = world.with_another_operator();
    Arc::get_mut(&mut other.context).unwrap().keep_finished = Some(1);
    let copy = |name: &str, change: &dyn Fn(&mut Value)| {
        let cluster = world.server.get(CLUSTER).unwrap();
        let uid = cluster["metadata"]["uid"].as_str().unwrap().to_owned();
        for path in [CLUSTER, JOB, CONFIG] {
            let text = world.server.get(path).unwrap().to_string();
            let text = text.replace("hello", name).replace(&uid, &format!("uid-of-{name}"));
            let text = text.replace("job-uid", &format!("job-of-{name}"));
            let text = text.replace("2026-01-01T00:01:00Z", "2026-01-01T00:00:59Z");
            let mut object = serde_json::from_str(&text).unwrap();
            if path == CLUSTER {
                change(&mut object);
            }
            world.server.put(&path.replace("hello", name), object);
        }
    };
    copy("older", &|_| ());
    copy("again", &|object| object["spec"]["runId"] = json!("b"));
    copy("suspended", &|object| {
        object["spec"]["suspend"] = json!(true);
        object["status"] = json!({ "state": "Suspended" });
    });
    world.server.remove(&JOB.replace("hello", "suspended"));
    world.server.remove(&CONFIG.replace("hello", "suspended"));
    for name in ["older", "again", "suspended", "hello"] {
        reconcile_one(Arc::new(marker_of(name)), Arc::clone(&other.context)).await.unwrap();
    }
    let left = ["hello", "older", "again", "suspended"];
    let left = left.map(|name| world.server.get(&CLUSTER.replace("hello", name)).is_some());
    assert_eq!(left, [true, false, true, true]);
    let bodies = world.server.bodies();
    let event = bodies.iter().find(|body| body["reason"] == "Surplus").unwrap();
    assert_eq!((&event["regarding"]["name"], &event["type"]), (&json!("older"), &json!("Normal")));
    assert!(event["note"].as_str().unwrap().ends_with("(--keep-finished 1)"), "{event}");
}
