//! The tokens of an instance's API are replaced while it runs (`flux.rest.rotation`).

use crate::support::world::{CONFIG, JOB, SECRETS, World, patch};
use flux_contract::token::fingerprint;
use flux_contract::{REST_READ_ONLY_KEY, REST_SECRET_KEY, Rest};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The API in the agents' configuration, whose fingerprints are those of the tokens in the Secret of its name.
fn api(world: &World) -> Rest {
    let rest = world.agent_config().rest.unwrap();
    let secret = world.server.get(&path(&rest)).unwrap();
    let [full, reader] = [REST_SECRET_KEY, REST_READ_ONLY_KEY].map(|key| {
        let token = secret["stringData"][key].as_str().unwrap();
        assert_eq!(token.len(), 48, "{key}");
        fingerprint(token)
    });
    assert_ne!(full, reader);
    assert_eq!((&rest.token_sha256, &rest.read_only_token_sha256), (&full, &Some(reader)));
    rest
}

fn path(rest: &Rest) -> String {
    format!("{SECRETS}/hello-rest-{:.10}", rest.token_sha256)
}

fn rotate(world: &World, generation: i64, value: &str) {
    world.edit(generation, |spec| spec["flux"]["rest"]["rotation"] = json!(value));
}

async fn started() -> World {
    let world = World::reconciled(&json!({ "flux": { "rest": {} } })).await;
    world.reconcile().await.unwrap();
    world
}

#[tokio::test]
async fn another_rotation_makes_new_tokens_once() {
    let world = started().await;
    let first = api(&world);
    rotate(&world, 2, "second");
    let secrets: BTreeSet<_> = world.server.paths(SECRETS).into_iter().collect();
    let writes = world.writes().await;
    assert!(
        writes.starts_with(&[format!("POST {SECRETS}"), patch(CONFIG), patch(JOB)]),
        "{writes:?}"
    );
    let second = api(&world);
    assert_eq!(second.rotation.as_deref(), Some("second"));
    assert_eq!((second.port, second.tls), (first.port, first.tls));
    // The operator has no right to delete the Secret before it, whose tokens are of no use.
    let mut both = secrets;
    both.insert(path(&second));
    assert_eq!(world.server.paths(SECRETS).into_iter().collect::<BTreeSet<_>>(), both);
    world.reconcile().await.unwrap();
    let (.., message) = world.condition("RestReady");
    let name = path(&second).replace(&format!("{SECRETS}/"), "");
    assert!(
        message.contains(&format!("Secret {name}, keys token and read-only-token")),
        "{message}"
    );
    assert_eq!(world.writes().await, [""; 0]);
    assert_eq!(api(&world), second);
}

/// The agents have the old tokens, whose Secret is still there, until the next attempt.
#[tokio::test]
async fn a_rotation_that_fails_half_way_is_done_at_the_next_attempt() {
    let world = started().await;
    let first = api(&world);
    rotate(&world, 2, "second");
    world.server.refuse(CONFIG, 403, "exceeded quota");
    world.reconcile().await.unwrap_err();
    assert_eq!(api(&world), first);
    world.server.accept_all();
    world.reconcile().await.unwrap();
    assert_eq!(api(&world).rotation.as_deref(), Some("second"));
}

/// Agents of a release without a token that reads would neither read another fingerprint nor a field that is new to them.
#[tokio::test]
async fn agents_that_read_one_token_keep_it() {
    let world = started().await;
    world.server.change(CONFIG, |object| {
        let text = object["data"]["agent.toml"].as_str().unwrap().to_owned();
        let lines = text.split_inclusive('\n');
        let known = lines.filter(|line| !line.starts_with("read_only_token_sha256"));
        object["data"]["agent.toml"] = json!(known.collect::<String>());
    });
    let before: Value = world.server.get(CONFIG).unwrap()["data"].clone();
    rotate(&world, 2, "second");
    let writes = world.writes().await;
    assert!(!writes.contains(&format!("POST {SECRETS}")), "{writes:?}");
    assert_eq!(world.server.get(CONFIG).unwrap()["data"]["agent.toml"], before["agent.toml"]);
    let (status, reason, message) = world.condition("Progressing");
    assert!(message.contains("spec.flux.rest.rotation"), "{status} {reason} {message}");
    let (.., message) = world.condition("RestReady");
    assert!(message.ends_with("key token"), "{message}");
}
