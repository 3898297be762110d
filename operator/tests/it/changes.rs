//! Edits of a MiniCluster that runs.

use crate::support::world::{CLUSTER, CONFIG, JOB, World, finish, patch, status};
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
