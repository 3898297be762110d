//! What a change of the specification does to a MiniCluster that runs.

use crate::support::world::{CLUSTER, CONFIG, JOB, World, finish, patch, status};
use flux_contract::AgentConfig;
use serde_json::json;

/// The fields that the condition names as fixed.
fn refused(world: &World) -> String {
    let (_, reason, message) = world.condition("Progressing");
    assert_eq!(reason, "ChangeRefused", "{message}");
    let told = message.strip_prefix("cannot be changed while the Job exists: ").unwrap();
    told.strip_suffix("; delete and create the MiniCluster").unwrap().to_owned()
}

/// Makes of the Job and the agents' configuration what another release of the operator might have
/// built from the same specification.
fn as_built_by_another_release(world: &World) {
    world.server.change(JOB, |job| {
        let pod = &mut job["spec"]["template"]["spec"];
        pod["volumes"] = json!([]);
        pod["containers"][0]["env"] = json!([{ "name": "ONCE", "value": "there" }]);
    });
    world.server.change(CONFIG, |object| {
        let text = object["data"]["agent.toml"].as_str().unwrap();
        let mut config = AgentConfig::from_toml(text).unwrap();
        config.broker.connect_timeout = Some("9s".to_owned());
        config.environment.insert("ONCE".to_owned(), "there".to_owned());
        object["data"]["agent.toml"] = json!(config.to_toml().unwrap());
    });
}

#[tokio::test]
async fn another_size_patches_the_job() {
    let world = World::new(&json!({ "maxSize": 6 }));
    world.reconcile().await.unwrap();
    world.server.writes();
    world.edit(2, |spec| spec["size"] = json!(6));
    let writes = world.writes().await;
    assert_eq!(writes, [patch(CONFIG), patch(JOB), status()]);
    let job = world.server.get(JOB).unwrap();
    assert_eq!((&job["spec"]["parallelism"], &job["spec"]["completions"]), (&json!(6), &json!(6)));
    assert_eq!(world.status().size, 6);
    assert_eq!(world.writes().await, [""; 0]);
    // Flux knows six hosts: a refused size leaves the Job and what the status says of it as they are.
    world.edit(3, |spec| (spec["size"], spec["maxSize"]) = (json!(7), json!(7)));
    assert_eq!(world.writes().await, [status()]);
    assert_eq!((world.status().size, world.status().maximum_size), (6, 6));
    assert_eq!(world.status().observed_generation, Some(3));
}

#[tokio::test]
async fn deadline_and_backoff_limit_follow_unless_workers_would_have_to_know() {
    let limits = |world: &World| {
        let job = world.server.get(JOB).unwrap();
        (job["spec"]["activeDeadlineSeconds"].clone(), job["spec"]["backoffLimit"].clone())
    };
    let world = World::new(&json!({ "backoffLimit": 1 }));
    world.reconcile().await.unwrap();
    world.edit(2, |spec| {
        spec["deadlineSeconds"] = json!(60);
        spec["backoffLimit"] = json!(3);
    });
    world.reconcile().await.unwrap();
    assert_eq!(limits(&world), (json!(60), json!(3)));
    world.edit(3, |spec| spec["backoffLimit"] = json!(0));
    world.reconcile().await.unwrap();
    assert_eq!(limits(&world), (json!(60), json!(3)));
    let told = "spec.backoffLimit: a limit cannot become 0 or begin at 0, as the workers' agents know \
                from their start whether a lead may follow the one that failed";
    assert_eq!(refused(&world), told);
}

#[tokio::test]
async fn agents_that_keep_a_deadline_learn_of_another_and_others_are_told_of_none() {
    let deadlines = |world: &World| {
        let config = world.server.get(CONFIG).unwrap();
        let config = AgentConfig::from_toml(config["data"]["agent.toml"].as_str().unwrap());
        let job = world.server.get(JOB).unwrap();
        let of_job = job["spec"]["activeDeadlineSeconds"].as_i64().unwrap();
        (config.unwrap().shutdown.deadline_seconds, of_job)
    };
    let margin = 30 + 1800;
    let world = World::new(&json!({ "deadlineSeconds": 60 }));
    world.reconcile().await.unwrap();
    assert_eq!(deadlines(&world), (Some(60), 60 + margin));
    world.edit(2, |spec| spec["deadlineSeconds"] = json!(90));
    world.reconcile().await.unwrap();
    assert_eq!(deadlines(&world), (Some(90), 90 + margin));
    // Left out it is the default, which such an agent has to be told.
    world.edit(3, |spec| drop(spec.as_object_mut().unwrap().remove("deadlineSeconds")));
    world.reconcile().await.unwrap();
    assert_eq!(deadlines(&world), (Some(31_500_000), 31_500_000 + margin));

    let world = World::new(&json!({}));
    world.reconcile().await.unwrap();
    world.edit(2, |spec| spec["deadlineSeconds"] = json!(60));
    world.reconcile().await.unwrap();
    assert_eq!(deadlines(&world), (None, 60), "an agent of another release could not read it");
}

#[tokio::test]
async fn after_an_upgrade_only_the_fields_that_the_user_touches_are_told() {
    let world = World::new(&json!({ "services": [{ "image": "db", "name": "db" }] }));
    world.reconcile().await.unwrap();
    as_built_by_another_release(&world);
    world.server.change("/api/v1/namespaces/work/pods/hello-services", |pod| {
        pod["spec"]["restartPolicy"] = json!("Always");
    });
    world.server.writes();
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
async fn a_change_of_a_finished_mini_cluster_says_that_nothing_was_run() {
    let world = World::new(&json!({}));
    world.reconcile().await.unwrap();
    finish(&world, "Complete", 0);
    world.reconcile().await.unwrap();
    world.server.writes();
    world.edit(2, |spec| spec["containers"][0]["command"] = json!("echo other"));
    assert_eq!(world.writes().await, [status()]);
    let (progressing, reason, message) = world.condition("Progressing");
    assert_eq!((progressing.as_str(), reason.as_str()), ("False", "NotRunAgain"));
    assert!(message.starts_with("nothing was run: "), "{message}");
    assert!(message.contains("spec.containers[0].command"), "{message}");
    assert!(world.events().contains(&(reason, message)));
    world.edit(3, |spec| {
        spec["containers"][0]["command"] = json!("echo hello");
        spec["size"] = json!(2);
    });
    assert_eq!(world.writes().await, [status()]);
    assert_eq!(world.condition("Progressing").1, "NotRunAgain");
    world.edit(4, |spec| spec["cleanup"] = json!(true));
    assert!(world.writes().await.contains(&format!("DELETE {CLUSTER}")));
}

#[tokio::test]
async fn a_smaller_size_makes_an_event_that_names_the_pods_that_leave() {
    let world = World::new(&json!({}));
    world.reconcile().await.unwrap();
    world.edit(2, |spec| spec["size"] = json!(2));
    world.reconcile().await.unwrap();
    world.reconcile().await.unwrap();
    let events = world.events().into_iter().filter(|(reason, _)| reason == "ScaledDown");
    let notes: Vec<String> = events.map(|(_, note)| note).collect();
    assert_eq!(notes.len(), 1);
    assert!(notes[0].starts_with("from 4 to 2 pods: hello-[2-3] leave"), "{notes:?}");
}

#[tokio::test]
async fn an_invalid_change_of_what_runs_is_refused_and_its_end_is_seen() {
    let world = World::new(&json!({ "services": [{ "image": "db", "name": "db" }] }));
    world.reconcile().await.unwrap();
    world.server.writes();
    world.edit(2, |spec| spec["flux"]["topology"] = json!("nonsense"));
    assert_eq!(world.writes().await, [status()]);
    assert_eq!(world.condition("Accepted").1, "Invalid");
    world.edit(3, |spec| spec["flux"]["topology"] = json!("other nonsense"));
    world.reconcile().await.unwrap();
    let events = world.events().into_iter().filter(|(reason, _)| reason == "Invalid");
    let notes: Vec<String> = events.map(|(_, note)| note).collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[1].contains("other nonsense"), "{notes:?}");
    world.server.writes();
    finish(&world, "Failed", 7);
    world.edit(4, |spec| spec["cleanup"] = json!(true));
    let writes = world.writes().await;
    let services = "DELETE /api/v1/namespaces/work/pods/hello-services".to_owned();
    let address = "DELETE /api/v1/namespaces/work/services/hello-lead".to_owned();
    assert_eq!(writes, [address, services, patch(CONFIG), status(), format!("DELETE {CLUSTER}")]);
}

/// The names of Services are in the specification, and what was made once has those of another one.
#[tokio::test]
async fn no_address_is_left_of_a_sidecar_that_was_taken_out_of_the_specification() {
    let sidecar = json!({ "image": "web", "name": "web", "runFlux": false, "ports": [80] });
    let world = World::new(&json!({
        "containers": [{ "image": "app", "command": "a", "runFlux": true }, sidecar],
    }));
    world.reconcile().await.unwrap();
    let services = || world.server.paths("/api/v1/namespaces/work/services");
    assert_eq!(services().len(), 4, "{:?}", services());
    world.edit(2, |spec| spec["containers"].as_array_mut().unwrap().truncate(1));
    world.reconcile().await.unwrap();
    finish(&world, "Failed", 7);
    world.reconcile().await.unwrap();
    assert_eq!(services(), ["/api/v1/namespaces/work/services/hello"]);
}

#[tokio::test]
async fn a_run_whose_configuration_cannot_be_read_is_not_touched() {
    let world = World::new(&json!({}));
    world.reconcile().await.unwrap();
    world.server.change(CONFIG, |object| {
        let text = object["data"]["agent.toml"].as_str().unwrap();
        let news = text.replace("version = 1", "version = 2\nnews = true");
        object["data"]["agent.toml"] = json!(news);
    });
    world.server.change("/api/v1/namespaces/work/services/hello", |service| {
        service["spec"]["selector"] = json!({ "as": "that release has it" });
    });
    let before = world.server.get(CONFIG);
    world.server.writes();
    assert_eq!(world.writes().await, [""; 0]);
    world.edit(2, |spec| spec["size"] = json!(2));
    assert_eq!(world.writes().await, [status()]);
    let (_, reason, message) = world.condition("Progressing");
    assert_eq!(reason, "ChangeRefused");
    assert!(message.contains("agent image registry.example/agent:9"), "{message}");
    assert_eq!(world.server.get(CONFIG), before);
    finish(&world, "Complete", 0);
    world.reconcile().await.unwrap();
    assert_eq!(world.condition("Complete").0, "True");
    let after = world.server.get(CONFIG).unwrap();
    assert_eq!(after["data"], before.unwrap()["data"]);
}
