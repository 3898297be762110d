//! Faults of the operator or the API server change no objects of others.

use crate::prelude::*;
use flux_operator::controller::supervise;

#[tokio::test]
async fn a_panic_is_reported_and_the_next_reconcile_succeeds() {
    let world = World::reconciled(&json!({})).await;
    finish(&world, "Failed", 7);
    world.reconcile().await.unwrap();
    let (before, failed) = (world.status(), world.condition("Failed"));
    let decide = async { panic!("no rank {}", "hello-9") };
    let result = supervise::<()>(&marker(), &world.context, decide).await;
    assert_eq!(result.unwrap_err().category(), "Internal");
    let (progressing, reason, message) = world.condition("Progressing");
    assert_eq!((progressing.as_str(), reason.as_str()), ("False", "Internal"));
    assert!(message.contains("its log") && !message.contains("hello-9"), "{message}");
    let after = world.status();
    assert_eq!((after.state, after.exit_code), (before.state, before.exit_code));
    assert_eq!(world.condition("Failed"), failed, "what is known of a run stays");
    world.reconcile().await.unwrap();
    assert_eq!(world.condition("Progressing").1, "Finished");
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_server_delays_a_reconcile_by_a_minute() {
    let world = World::new(&json!({}));
    world.server.set_outage(Some(Failure::Swallowed));
    let begin = tokio::time::Instant::now();
    assert_eq!(world.reconcile().await.unwrap_err().category(), "TimedOut");
    assert!(begin.elapsed().as_secs() <= 70, "{:?}", begin.elapsed());
    world.server.set_outage(None);
    world.reconcile().await.unwrap();
    assert_eq!(world.condition("Progressing").0, "True");
}

/// An object of somebody else.
fn foreign(kind: &str, name: &str) -> Value {
    let version = if kind == "Job" { "batch/v1" } else { "v1" };
    json!({
        "apiVersion": version, "kind": kind, "metadata": { "name": name }, "data": {},
        "spec": { "template": {} },
    })
}

#[tokio::test]
async fn an_object_created_after_the_read_is_not_adopted() {
    for (path, kind, is_needed) in [
        (SERVICE, "Service", true),
        (CONFIG, "ConfigMap", true),
        (JOB, "Job", true),
        ("/api/v1/namespaces/work/services/web", "Service", false),
    ] {
        let world = World::new(&with_sidecar());
        world.server.intrude(path, foreign(kind, path.rsplit_once('/').unwrap().1));
        let failed = world.reconcile().await.err().map(|error| error.category());
        assert_eq!(failed, is_needed.then_some("NameTaken"), "{path}");
        let object = world.server.get(path).unwrap();
        assert!(object["metadata"]["ownerReferences"].is_null(), "{object}");
        assert_eq!(world.condition("Progressing").1 == "NameTaken", is_needed, "{path}");
    }
}

#[tokio::test]
async fn an_object_replaced_after_the_read_is_read_again() {
    for (path, kind, name) in [(SERVICE, "Service", "hello"), (CONFIG, "ConfigMap", "hello-agent")]
    {
        let world = World::reconciled(&json!({})).await;
        let status = world.status();
        world.server.change(path, |object| {
            object["metadata"]["labels"] = json!({});
        });
        world.server.intrude(path, foreign(kind, name));
        assert_eq!(world.reconcile().await.unwrap_err().category(), "Conflict", "{path}");
        assert!(world.server.get(path).unwrap()["metadata"]["ownerReferences"].is_null());
        // The status of outdated objects is not written.
        assert_eq!(world.status(), status);
        assert_eq!(world.reconcile().await.unwrap_err().category(), "NameTaken");
    }
}

/// A foreign owner keeps an object from the garbage collector.
#[tokio::test]
async fn an_owner_that_somebody_adds_stays_whatever_else_is_written() {
    let world = World::reconciled(&json!({})).await;
    let other =
        json!({ "apiVersion": "v1", "kind": "Secret", "name": "other", "uid": "other-uid" });
    for path in [SERVICE, CONFIG, JOB] {
        world.server.change(path, |object| {
            let owners = object["metadata"]["ownerReferences"].as_array_mut().unwrap();
            owners.insert(0, other.clone());
        });
    }
    assert_eq!(world.writes().await, [""; 0]);
    for path in [SERVICE, CONFIG, JOB] {
        world.server.change(path, |object| object["metadata"]["labels"] = json!({}));
    }
    assert_eq!(world.writes().await, [patch(SERVICE), patch(CONFIG), patch(JOB)]);
    for path in [SERVICE, CONFIG, JOB] {
        let owners = world.server.get(path).unwrap()["metadata"]["ownerReferences"].clone();
        let uids: Vec<_> = owners.as_array().unwrap().iter().map(|it| it["uid"].clone()).collect();
        assert_eq!(uids, ["other-uid", "11111111-2222-3333-4444-555555555555"], "{path}");
    }
}

#[tokio::test]
async fn a_job_changed_after_the_read_is_read_again() {
    let world = World::reconciled(&json!({ "maxSize": 6 })).await;
    let mut job = world.server.get(JOB).unwrap();
    job["status"] = json!({ "active": 4 });
    world.server.intrude(JOB, job);
    world.edit(2, |spec| spec["size"] = json!(6));
    assert_eq!(world.reconcile().await.unwrap_err().category(), "Conflict");
    assert_eq!(world.server.get(JOB).unwrap()["spec"]["parallelism"], 4);
    world.reconcile().await.unwrap();
    assert_eq!(world.server.get(JOB).unwrap()["spec"]["parallelism"], 6);
}

#[tokio::test]
async fn the_status_is_not_written_to_a_namesake_created_since() {
    let world = World::new(&json!({}));
    let mut namesake = world.server.get(CLUSTER).unwrap();
    namesake["metadata"]["uid"] = json!("of-the-next-one");
    world.server.intrude(CLUSTER, namesake);
    assert_eq!(world.reconcile().await.unwrap_err().category(), "Conflict");
    assert!(world.server.get(CLUSTER).unwrap()["status"].is_null());
}

/// A leftover condition of the Go operator would be outdated.
#[tokio::test]
async fn conditions_of_another_operator_are_removed_once() {
    let world = World::new(&json!({}));
    let condition = |type_: &str, status: &str| {
        json!({
            "type": type_, "reason": type_, "message": type_, "status": status,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    world.server.change(CLUSTER, |object| {
        let left = [condition("JobFinished", "True"), condition("JobMiniClusterReady", "False")];
        object["status"] = json!({
            "conditions": left, "jobid": "", "selector": "", "size": 0, "maximumSize": 0,
            "exitCode": 3, "startTime": "2026-01-01T00:00:00Z",
        });
    });
    world.reconcile().await.unwrap();
    let status = world.status();
    assert_eq!(world.condition("Accepted").1, "Accepted", "it could be read");
    let types: Vec<&str> = status.conditions.iter().map(|it| it.type_.as_str()).collect();
    let ours =
        ["Accepted", "Progressing", "Ready", "Suspended", "Complete", "Failed", "Reconciling"];
    assert_eq!(types, ours);
    assert_eq!((status.exit_code, status.start_time), (None, None));
    assert_eq!(world.writes().await, [""; 0]);
}

#[tokio::test]
async fn a_newer_status_of_another_operator_is_not_overwritten() {
    let world = World::reconciled(&json!({})).await;
    finish(&world, "Failed", 7);
    let mut newer = world.server.get(CLUSTER).unwrap();
    newer["status"]["jobid"] = json!("of the other operator");
    world.server.intrude(CLUSTER, newer);
    assert_eq!(world.reconcile().await.unwrap_err().category(), "Conflict");
    assert_eq!(world.status().jobid, "of the other operator");
    world.reconcile().await.unwrap();
    assert_eq!(world.status().exit_code, Some(7));
}

/// The resource versions that the deletions so far were sent for.
fn deleted_versions(world: &World) -> Vec<Value> {
    let versions = |body: Value| body["preconditions"]["resourceVersion"].clone();
    world.server.bodies().into_iter().map(versions).filter(|version| !version.is_null()).collect()
}

#[tokio::test]
async fn only_the_version_that_was_decided_on_is_deleted() {
    let world =
        World::new(&json!({ "cleanup": true, "services": [{ "image": "a", "name": "a" }] }));
    world.reconcile().await.unwrap();
    world.reconcile().await.unwrap();
    let services_pod = world.server.get("/api/v1/namespaces/work/pods/hello-services").unwrap();
    finish(&world, "Complete", 0);
    world.reconcile().await.unwrap();
    assert!(world.server.get(CLUSTER).is_none());
    let deleted = deleted_versions(&world);
    assert!(deleted.contains(&services_pod["metadata"]["resourceVersion"]), "{deleted:?}");

    let world = World::reconciled(&json!({ "cleanup": true })).await;
    finish(&world, "Complete", 0);
    world.server.change(CLUSTER, |object| object["metadata"]["finalizers"] = json!(["a/b"]));
    world.reconcile().await.unwrap();
    world.server.change(CLUSTER, |object| object["metadata"]["deletionTimestamp"] = json!(null));
    let mut changed = world.server.get(CLUSTER).unwrap();
    changed["metadata"]["labels"] = json!({ "changed": "since" });
    world.server.intrude(CLUSTER, changed);
    assert_eq!(world.reconcile().await.unwrap_err().category(), "Conflict");
    assert!(world.server.get(CLUSTER).unwrap()["metadata"]["deletionTimestamp"].is_null());
}

/// The Secret that the Job's pods mount.
fn mounted(world: &World) -> String {
    let job = world.server.get(JOB).unwrap();
    let volumes = job["spec"]["template"]["spec"]["volumes"].clone();
    let volumes = volumes.as_array().unwrap().clone();
    let curve = volumes.iter().find(|volume| volume["name"] == "hello-curve").unwrap();
    format!("{SECRETS}/{}", curve["secret"]["secretName"].as_str().unwrap())
}

#[tokio::test]
async fn another_specification_runs_with_another_key_in_another_secret() {
    let world = World::reconciled(&json!({})).await;
    finish(&world, "Failed", 7);
    world.reconcile().await.unwrap();
    world.server.remove(JOB);
    put_pods(&world, vec![]);
    let first = world.server.paths(SECRETS);
    world.edit(2, |spec| spec["containers"][0]["command"] = json!("echo again"));
    world.reconcile().await.unwrap();
    assert_eq!((world.status().exit_code, world.status().state), (None, Some(State::Pending)));
    let second = mounted(&world);
    assert!(first.len() == 1 && !first.contains(&second), "{first:?} {second}");
    let key = |path: &str| world.server.get(path).unwrap()["stringData"]["curve.cert"].clone();
    assert_ne!(key(&first[0]), key(&second));
}

#[tokio::test]
async fn the_next_attempt_uses_the_secret_of_a_failed_one() {
    let world = World::new(&json!({}));
    world.server.refuse(JOB, 403, "exceeded quota");
    world.reconcile().await.unwrap_err();
    let paths = world.server.paths(SECRETS);
    let secret = world.server.get(&paths[0]);
    world.server.accept_all();
    world.reconcile().await.unwrap();
    assert_eq!(world.server.paths(SECRETS), paths);
    assert_eq!((world.server.get(&paths[0]), &mounted(&world)), (secret, &paths[0]));
}

/// The objects that the Go operator creates, in its order (`ensureMiniCluster` in `controllers/flux/minicluster.go`).
fn of_the_operator_in_go(world: &World) -> [(&'static str, Value); 3] {
    let uid = world.server.get(CLUSTER).unwrap()["metadata"]["uid"].clone();
    let object = |version: &str, kind: &str, name: &str, spec: Value| {
        let owner = json!({
            "apiVersion": "flux-framework.org/v1alpha2", "kind": "MiniCluster", "name": "hello", "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        });
        let metadata = json!({ "name": name, "namespace": "work", "ownerReferences": [owner] });
        json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec })
    };
    let selector = json!({ "clusterIP": "None", "selector": { "job-name": "hello" } });
    let job = json!({ "completions": 4, "parallelism": 4, "template": {} });
    [
        (ENTRYPOINT, object("v1", "ConfigMap", "hello-entrypoint", Value::Null)),
        (SERVICE, object("v1", "Service", "hello", selector)),
        (JOB, object("batch/v1", "Job", "hello", job)),
    ]
}

const ENTRYPOINT: &str = "/api/v1/namespaces/work/configmaps/hello-entrypoint";

#[tokio::test]
async fn a_job_of_the_go_operator_gets_only_a_record() {
    let world = World::new(&json!({}));
    for (path, object) in of_the_operator_in_go(&world) {
        world.server.put(path, object);
    }
    let before = [ENTRYPOINT, SERVICE, JOB].map(|path| world.server.get(path));
    assert_eq!(world.writes().await, [create(CONFIG), status()]);
    assert_eq!(world.condition("Progressing").1, "StartedByAnotherOperator");
    assert_eq!([ENTRYPOINT, SERVICE, JOB].map(|path| world.server.get(path)), before);
    world.server.remove(JOB);
    assert!(!world.writes().await.contains(&create(JOB)), "what it ran is not run again");
    assert_eq!(world.condition("Failed").1, "EndNotSeen");
}

/// Its pods lack the label that the watch selects by.
#[tokio::test(start_paused = true)]
async fn a_run_of_the_go_operator_is_reported_as_running() {
    let world = World::new(&json!({}));
    for (path, object) in of_the_operator_in_go(&world) {
        world.server.put(path, object);
    }
    world.server.change(JOB, |job| {
        job["metadata"]["uid"] = json!("job-uid");
        job["status"] = json!({ "startTime": "2026-01-01T00:00:00Z", "active": 4, "ready": 4 });
    });
    let lead = json!({ "metadata": of_the_job("hello-0-abcde", 0), "status": ready("hello") });
    put_pods(&world, vec![lead]);
    world.server.deliver_all_except(&[]);
    tokio::spawn(control(Arc::clone(&world.context)));
    let state = || world.server.get(CLUSTER).unwrap()["status"]["state"].clone();
    until("it runs", || state() == "Running").await;
    assert_eq!(world.condition("Ready").0, "True");
}

/// The operator that creates the Job first has the run. Both operators use a Service of the same name, whose owner is
/// the MiniCluster.
#[tokio::test]
async fn the_service_of_the_go_operator_is_taken_over() {
    let world = World::new(&json!({}));
    let [(_, scripts), (_, service), _] = of_the_operator_in_go(&world);
    world.server.put(ENTRYPOINT, scripts);
    world.server.put(SERVICE, service);
    let before = world.server.get(ENTRYPOINT);
    let writes = world.writes().await;
    assert!(writes.contains(&patch(SERVICE)) && writes.contains(&create(JOB)), "{writes:?}");
    assert_eq!(world.condition("Progressing").0, "True");
    assert_eq!(world.server.get(ENTRYPOINT), before);
    assert_eq!(world.writes().await, [""; 0]);
}
