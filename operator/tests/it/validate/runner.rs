//! Which container runs Flux, and as whom.

use crate::validate::{container, good};
use serde_json::json;

#[test]
fn the_only_container_runs_flux_whatever_it_says() {
    for run_flux in [json!({}), json!({ "runFlux": true }), json!({ "runFlux": false })] {
        assert!(good(container(run_flux)).sidecars.is_empty());
    }
}

#[test]
fn a_marked_container_runs_flux_and_the_others_are_beside_it() {
    let cluster = good(json!({ "containers": [{ "name": "db" }, { "runFlux": true }] }));
    assert_eq!(cluster.runner.container.name, "hello");
    assert_eq!(cluster.sidecars[0].container.name, "db");
    let cluster = good(json!({ "containers": [{ "name": "db", "runFlux": false }, {}] }));
    assert_eq!(cluster.sidecars[0].container.name, "db");
}

#[test]
fn both_spellings_of_user_and_hooks_are_understood() {
    for (one, other) in [
        (json!({ "fluxUser": { "uid": 77 } }), json!({ "fluxuser": { "uid": 77 } })),
        (json!({ "commands": { "brokerPre": "a" } }), json!({ "commands": { "preBroker": "a" } })),
        (json!({ "commands": { "workerPre": "a" } }), json!({ "commands": { "preWorker": "a" } })),
    ] {
        let runner = good(container(one)).runner;
        assert_eq!(runner, good(container(other)).runner);
        assert_ne!(runner, good(container(json!({}))).runner);
    }
}
