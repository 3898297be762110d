//! Which container runs Flux, and as whom.

use crate::validate::{container, faults, good};
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
fn none_or_two_that_run_flux_are_refused() {
    for containers in [
        json!([]),
        json!([{ "name": "a" }, { "name": "b" }]),
        json!([{ "name": "a", "runFlux": false }, { "name": "b", "runFlux": false }]),
        json!([{ "runFlux": true }, { "runFlux": true }]),
    ] {
        assert_eq!(faults(json!({ "containers": containers })), ["spec.containers"]);
    }
}

#[test]
fn users_that_cannot_be_made_are_refused() {
    assert_eq!(
        faults(container(json!({ "fluxUser": { "uid": 0 } }))),
        ["spec.containers[0].fluxUser.uid"]
    );
    assert_eq!(
        faults(container(json!({ "fluxUser": { "name": "a:b" } }))),
        ["spec.containers[0].fluxUser.name"]
    );
}

#[test]
fn what_excludes_each_other_is_refused() {
    for (change, path) in [
        (json!({ "command": "a", "commands": { "script": "b" } }), "command"),
        (json!({ "command": "a", "launcher": true, "batch": true }), "launcher"),
        (json!({ "batch": true }), "command"),
        (json!({ "fluxUser": {}, "fluxuser": {} }), "fluxuser"),
        (json!({ "commands": { "workerPre": "a", "preWorker": "b" } }), "commands.preWorker"),
        (json!({ "commands": { "brokerPre": "a", "preBroker": "b" } }), "commands.preBroker"),
    ] {
        assert_eq!(faults(container(change)), [format!("spec.containers[0].{path}")]);
    }
}
