//! Whole reconciles of one MiniCluster, against an API server in memory.

use crate::prelude::*;
use flux_testkit::any_spec::OBJECT;
use flux_testkit::field_path::{get, leaves};
use flux_testkit::samples::CERTIFICATE;

#[tokio::test]
async fn the_first_reconcile_writes_all_and_the_second_nothing() {
    let world = World::new(&json!({}));
    let writes = world.writes().await;
    assert_eq!(writes[..2], [create(SERVICE), create(&format!("{SERVICE}-lead"))]);
    let secrets = format!("POST {SECRETS}");
    // The last write before the status is the record, which lets the pods of the Job start.
    assert_eq!(writes[2..], [secrets, create(CONFIG), create(JOB), patch(CONFIG), status()]);
    assert_eq!(world.status().state, Some(State::Pending));
    let config = world.server.get(CONFIG).unwrap();
    assert!(config["data"]["agent.toml"].as_str().unwrap().contains("\"10.96.0.7\""));
    world.server.writes();
    world.reconcile().await.unwrap();
    assert_eq!(world.server.writes(), [""; 0]);
}

#[tokio::test]
async fn the_certificate_is_written_to_the_secret_and_nowhere_else() {
    for spec in [json!({}), json!({ "flux": { "curveCert": CERTIFICATE } })] {
        let world = World::reconciled(&spec).await;
        let paths = world.server.paths(SECRETS);
        assert_eq!(paths.len(), 1);
        let secret = world.server.get(&paths[0]).unwrap();
        assert!(secret["stringData"]["curve.cert"].as_str().unwrap().contains("secret-key"));
        let others = world.server.bodies().into_iter().filter(|body| body["kind"] != "Secret");
        let others: Vec<String> = others.map(|body| body.to_string()).collect();
        assert!(others.len() > 4 && others.iter().all(|body| !body.contains("secret-key")));
    }
}

#[tokio::test]
async fn an_end_that_could_not_be_noted_is_not_reported() {
    let world = World::reconciled(&json!({})).await;
    finish(&world, "Failed", 7);
    world.server.refuse(CONFIG, 500, "no notes for you");
    assert_eq!(world.reconcile().await.unwrap_err().category(), "ApplyFailed");
    assert_eq!(world.status().state, Some(State::Pending));
    let (progressing, reason, message) = world.condition("Progressing");
    assert_eq!((progressing.as_str(), reason.as_str()), ("False", "ApplyFailed"));
    assert!(message.contains("no notes for you"), "{message}");
    world.server.accept_all();
    world.reconcile().await.unwrap();
    assert_eq!((world.status().state, world.status().exit_code), (Some(State::Failed), Some(7)));
}

#[tokio::test]
async fn an_end_is_counted_once_whichever_operator_looks() {
    let world = World::reconciled(&json!({})).await;
    let ended = "miniclusters_ended_total{state=\"Failed\",reason=\"CommandFailed\"}";
    let has_counted = |world: &World, number: u32| {
        let text = world.metrics.text().unwrap();
        text.contains(&format!("flux_operator_{ended} {number}\n"))
    };
    finish(&world, "Failed", 7);
    world.server.refuse(&format!("{CLUSTER}/status"), 500, "not now");
    world.reconcile().await.unwrap_err();
    assert!(has_counted(&world, 0), "no status says so");
    world.server.accept_all();
    for _ in 0..2 {
        world.reconcile().await.unwrap();
        assert!(has_counted(&world, 1));
    }
    let other = world.with_another_operator();
    other.reconcile().await.unwrap();
    assert!(has_counted(&other, 0));
}

#[tokio::test]
async fn the_end_is_recorded_again_in_a_new_config_map() {
    let world = World::reconciled(&json!({})).await;
    finish(&world, "Failed", 7);
    world.reconcile().await.unwrap();
    world.server.remove(CONFIG);
    assert_eq!(world.writes().await, ["POST /api/v1/namespaces/work/configmaps"]);
    world.server.remove(JOB);
    assert_eq!(world.writes().await, [""; 0]);
}

/// The key of a run that the pods of the Job mount, and whether their `ConfigMap` has it.
fn gate(world: &World) -> bool {
    let job = world.server.get(JOB).unwrap();
    let volumes = job["spec"]["template"]["spec"]["volumes"].as_array().unwrap().clone();
    let items = volumes.iter().find_map(|volume| volume["configMap"]["items"].as_array());
    let key = items.unwrap()[1]["key"].as_str().unwrap();
    assert!(key.starts_with("run-"), "{key}");
    !world.server.get(CONFIG).unwrap()["data"][key].is_null()
}

#[tokio::test]
async fn a_run_without_job_and_end_has_failed_for_good() {
    let world = World::reconciled(&json!({})).await;
    assert!(gate(&world), "its pods may start");
    world.server.remove(JOB);
    for world in [&world, &world.with_another_operator()] {
        assert!(!world.writes().await.contains(&create(JOB)));
        let (failed, reason, message) = world.condition("Failed");
        assert_eq!((failed.as_str(), reason.as_str()), ("True", "EndNotSeen"));
        assert!(
            message.contains("uid job-uid") && message.contains("Change spec.runId"),
            "{message}"
        );
        assert!(world.server.get(&format!("{SERVICE}-lead")).is_none(), "its address is free");
    }
    world.edit(2, |spec| spec["containers"][0]["command"] = json!("echo other"));
    assert!(world.writes().await.contains(&create(JOB)), "another specification is another run");
    assert!(gate(&world));
}

#[tokio::test]
async fn the_pods_of_a_job_wait_for_its_record() {
    let world = World::reconciled(&json!({})).await;
    // The operator has ended between its last two writes.
    let crash = |world: &World| {
        world.server.change(CONFIG, |config| {
            config["metadata"]["annotations"] = json!({});
            config["data"].as_object_mut().unwrap().retain(|key, _| key == "agent.toml");
        });
    };
    for deleted in [false, true] {
        crash(&world);
        assert!(!gate(&world), "nothing has begun");
        if deleted {
            world.server.remove(JOB);
        }
        let other = world.with_another_operator();
        assert_eq!(other.writes().await.contains(&create(JOB)), deleted);
        assert!(gate(&other), "what has not begun begins");
    }
}

#[tokio::test]
async fn a_deleted_suspended_job_is_created_again() {
    let world = World::reconciled(&json!({ "suspend": true })).await;
    assert!(!gate(&world));
    world.server.remove(JOB);
    assert!(world.writes().await.contains(&create(JOB)));
    world.edit(2, |spec| spec["suspend"] = json!(false));
    world.reconcile().await.unwrap();
    assert!(gate(&world), "it is resumed");
}

#[tokio::test]
async fn the_first_error_is_the_one_that_counts() {
    let world = World::new(&json!({}));
    world.server.refuse(JOB, 403, "exceeded quota: pods");
    world.server.refuse(&format!("{CLUSTER}/status"), 500, "no status for you");
    assert_eq!(world.reconcile().await.unwrap_err().category(), "ApplyFailed");
}

#[tokio::test]
async fn an_event_that_cannot_be_written_stops_nothing() {
    let world = World::new(&json!({}));
    world.server.refuse(EVENTS, 403, "no events for you");
    assert!(world.writes().await.contains(&create(JOB)));
}

#[tokio::test]
async fn an_unknown_field_of_the_overlay_is_named() {
    let world = World::new(&json!({ "pod": { "overlay": { "hostUsers": true } } }));
    let unknown = "unknown field \"spec.template.spec.hostUsers\"";
    world.server.refuse(JOB, 400, &format!("strict decoding error: {unknown}"));
    assert_eq!(world.reconcile().await.unwrap_err().category(), "ApplyFailed");
    let (_, reason, message) = world.condition("Progressing");
    assert_eq!(reason, "ApplyFailed");
    let cause = format!("apply Job \"hello\": strict decoding error: {unknown}");
    assert!(message.starts_with(&cause), "{message}");
    assert!(world.server.journal().iter().any(|it| it.contains("fieldValidation=Strict")));
}

/// The API server stores an overlay of any depth, and fields that an older definition allowed.
#[tokio::test]
async fn an_unreadable_specification_is_refused_like_any_other() {
    let deep = (0..200).fold(json!({}), |inner, _| json!({ "a": inner }));
    for (field, value) in [("overlay", deep), ("labels", json!(7))] {
        let world = World::new(&json!({}));
        world.server.change(CLUSTER, |object| object["spec"]["pod"] = json!({ field: value }));
        assert_eq!(world.writes().await, [status()]);
        let (status, reason, message) = world.condition("Accepted");
        assert_eq!((&*status, &*reason), ("False", "Invalid"));
        assert!(message.starts_with("spec: cannot be read: "), "{message}");
        assert_eq!(world.writes().await, [""; 0], "no second write");
    }
}

/// The fields come from the definition, so that the test has every new field.
#[tokio::test]
async fn each_field_of_the_status_gets_a_value() {
    let world = World::reconciled(&json!({ "runId": "a" })).await;
    let reported = || world.server.get(CLUSTER).unwrap()["status"].clone();
    let mut life = vec![reported()];
    world.server.change(JOB, |job| {
        job["status"] = json!({ "startTime": "2026-01-01T00:00:00Z", "active": 4, "ready": 4 });
    });
    world.reconcile().await.unwrap();
    life.push(reported());
    finish(&world, "Failed", 7);
    world.reconcile().await.unwrap();
    life.push(reported());
    let fields = leaves(&OBJECT["properties"]["status"]);
    assert!(fields.len() > 15, "only {} fields were found", fields.len());
    let is_silent = |path: &&str| {
        life.iter().all(|status| [json!(null), json!(0), json!("")].contains(&get(status, path, 0)))
    };
    let silent = fields.iter().map(|(path, _)| path.as_str()).filter(is_silent);
    assert_eq!(silent.collect::<Vec<_>>(), [""; 0]);
}

#[tokio::test]
async fn an_invalid_edit_of_a_run_hides_no_end() {
    let world = World::reconciled(&json!({ "services": [{ "image": "db", "name": "db" }] })).await;
    world.reconcile().await.unwrap();
    world.edit(2, |spec| spec["flux"]["topology"] = json!("nonsense"));
    assert_eq!(world.writes().await, [status()]);
    assert_eq!(world.condition("Accepted").1, "Invalid");
    world.edit(3, |spec| spec["flux"]["topology"] = json!("other nonsense"));
    world.reconcile().await.unwrap();
    let events = world.events().into_iter().filter(|(reason, _)| reason == "Invalid");
    let notes: Vec<String> = events.map(|(_, note)| note).collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[1].contains("other nonsense"), "{notes:?}");
    finish(&world, "Failed", 7);
    world.edit(4, |spec| spec["cleanup"] = json!(true));
    let writes = world.writes().await;
    let services = "DELETE /api/v1/namespaces/work/pods/hello-services".to_owned();
    let address = "DELETE /api/v1/namespaces/work/services/hello-lead".to_owned();
    assert_eq!(writes, [address, services, patch(CONFIG), status(), format!("DELETE {CLUSTER}")]);
}
