//! Edits of a MiniCluster that runs.

use crate::support::world::{CLUSTER, CONFIG, JOB, World, finish, patch, status, with_sidecar};
use serde_json::json;

/// The fields that the condition names as fixed.
fn refused(world: &World) -> String {
    let (_, reason, message) = world.condition("Progressing");
    assert_eq!(reason, "ChangeRefused", "{message}");
    let fields = message.strip_prefix("cannot be changed while the Job exists: ").unwrap();
    fields.strip_suffix("; delete and create the MiniCluster").unwrap().to_owned()
}

/// Changes the Job and the agents' configuration to those that another release might build.
fn as_built_by_another_release(world: &World) {
    world.server.change(JOB, |job| {
        let pod = &mut job["spec"]["template"]["spec"];
        pod["volumes"] = json!([]);
        pod["containers"][0]["env"] = json!([{ "name": "ONCE", "value": "there" }]);
    });
    let mut config = world.agent_config();
    config.broker.connect_timeout = Some("9s".to_owned());
    config.environment.insert("ONCE".to_owned(), "there".to_owned());
    world.server.change(CONFIG, |object| {
        object["data"]["agent.toml"] = json!(config.to_toml().unwrap());
    });
}

#[tokio::test]
async fn deadline_and_backoff_limit_follow_the_specification() {
    let limits = |world: &World| {
        let job = world.server.get(JOB).unwrap();
        (job["spec"]["activeDeadlineSeconds"].clone(), job["spec"]["backoffLimit"].clone())
    };
    let world = World::reconciled(&json!({ "backoffLimit": 1 })).await;
    world.edit(2, |spec| {
        spec["deadlineSeconds"] = json!(60);
        spec["backoffLimit"] = json!(3);
    });
    world.reconcile().await.unwrap();
    assert_eq!(limits(&world), (json!(60), json!(3)));
    world.edit(3, |spec| spec["backoffLimit"] = json!(0));
    world.reconcile().await.unwrap();
    assert_eq!(limits(&world), (json!(60), json!(3)));
    let expected = "spec.backoffLimit: a limit cannot become 0 or begin at 0, as the workers' agents know \
                from their start whether a lead may follow the one that failed";
    assert_eq!(refused(&world), expected);
}

#[tokio::test]
async fn only_agents_with_a_deadline_read_a_new_one() {
    let deadlines = |world: &World| {
        let job = world.server.get(JOB).unwrap();
        let of_job = job["spec"]["activeDeadlineSeconds"].as_i64().unwrap();
        (world.agent_config().shutdown.deadline_seconds, of_job)
    };
    let margin = 30 + 1800;
    let world = World::reconciled(&json!({ "deadlineSeconds": 60 })).await;
    assert_eq!(deadlines(&world), (Some(60), 60 + margin));
    world.edit(2, |spec| spec["deadlineSeconds"] = json!(90));
    world.reconcile().await.unwrap();
    assert_eq!(deadlines(&world), (Some(90), 90 + margin));
    // Without the field the default applies, which such an agent has to read.
    world.edit(3, |spec| drop(spec.as_object_mut().unwrap().remove("deadlineSeconds")));
    world.reconcile().await.unwrap();
    assert_eq!(deadlines(&world), (Some(31_500_000), 31_500_000 + margin));

    let world = World::reconciled(&json!({})).await;
    world.edit(2, |spec| spec["deadlineSeconds"] = json!(60));
    world.reconcile().await.unwrap();
    assert_eq!(deadlines(&world), (None, 60), "an agent of another release could not read it");
}

#[tokio::test]
async fn after_an_upgrade_only_edited_fields_are_refused() {
    let world = World::reconciled(&json!({ "services": [{ "image": "db", "name": "db" }] })).await;
    world.reconcile().await.unwrap();
    as_built_by_another_release(&world);
    world.server.change("/api/v1/namespaces/work/pods/hello-services", |pod| {
        pod["spec"]["restartPolicy"] = json!("Always");
    });
    assert_eq!(world.writes().await, [""; 0]);
    world.edit(2, |spec| spec["size"] = json!(2));
    world.reconcile().await.unwrap();
    assert_eq!(world.server.get(JOB).unwrap()["spec"]["parallelism"], 2);
    assert_ne!(world.condition("Progressing").1, "ChangeRefused");
    world.edit(3, |spec| spec["flux"]["logLevel"] = json!(7));
    world.reconcile().await.unwrap();
    assert_eq!(refused(&world), "spec.flux.logLevel");
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

/// The names of the Services of the first specification are not in the present one.
#[tokio::test]
async fn a_removed_sidecar_leaves_no_address() {
    let world = World::reconciled(&with_sidecar()).await;
    let services = || world.server.paths("/api/v1/namespaces/work/services");
    assert_eq!(services().len(), 4, "{:?}", services());
    world.edit(2, |spec| spec["containers"].as_array_mut().unwrap().truncate(1));
    world.reconcile().await.unwrap();
    finish(&world, "Failed", 7);
    world.reconcile().await.unwrap();
    assert_eq!(services(), ["/api/v1/namespaces/work/services/hello"]);
}
