//! What the API server refuses by itself, and this crate.

use crate::validate::{CERTIFICATE, beside, container, defaults, named, spec, volume};
use flux_operator::cluster::validate::validate;
use serde_json::json;

#[test]
fn what_the_api_server_refuses_is_refused_here_as_well() {
    let lead = json!({ "address": "a", "name": "r", "size": 1, "hostlist": "r-0,hello-[0-3]" });
    for change in [
        json!({ "maxSize": 3 }),
        json!({ "minSize": 5 }),
        json!({ "containers": [{ "runFlux": true }, { "runFlux": true }] }),
        json!({ "containers": [{ "name": "a" }, { "name": "b" }] }),
        json!({ "containers": [{ "runFlux": true }, {}] }),
        json!({ "containers": [{}, { "runFlux": false }] }),
        json!({ "launcher": true, "containers": [{ "command": "a", "batch": true }] }),
        json!({ "services": [{}] }),
        json!({ "services": [{ "name": "a", "commands": { "brokerPre": "b" } }] }),
        container(json!({ "command": "a", "launcher": true, "batch": true })),
        container(json!({ "command": "a", "commands": { "script": "b" } })),
        container(json!({ "fluxUser": {}, "fluxuser": {} })),
        container(json!({ "commands": { "workerPre": "a", "preWorker": "b" } })),
        container(json!({ "commands": { "brokerPre": "a", "preBroker": "b" } })),
        volume(json!({ "path": "/a", "hostPath": "/a", "emptyDir": true })),
        volume(json!({ "hostPath": "/a" })),
        json!({ "flux": { "curveCert": CERTIFICATE, "curveCertSecret": "b" } }),
        json!({ "flux": { "leadBroker": lead, "bursting": { "leadBroker": lead } } }),
        json!({ "flux": { "leadBroker": lead, "bursting": { "hostlist": "a" } } }),
        json!({ "flux": { "leadBroker": lead, "bursting": { "clusters": [{}] } } }),
        json!({ "flux": { "bursting": { "hostlist": "hello-[0-3]", "clusters": [{}] } } }),
        json!({ "flux": { "bursting": { "leadBroker": lead, "hostlist": "a" } } }),
    ] {
        let cluster = named("hello", spec(change.clone()));
        assert!(cluster.validate_cel().is_err(), "the API server accepts {change}");
        assert!(validate(&cluster, &defaults()).is_err(), "accepted here: {change}");
    }
    for name in ["a".repeat(60), "a.b".to_owned(), "0a".to_owned()] {
        let cluster = named(&name, spec(json!({})));
        assert!(
            cluster.validate_cel().is_err() && validate(&cluster, &defaults()).is_err(),
            "{name}"
        );
    }
}

#[test]
fn what_is_accepted_here_the_api_server_accepts() {
    for change in [
        json!({}),
        json!({ "maxSize": 4, "minSize": 4 }),
        beside(json!({ "name": "b" })),
        json!({ "containers": [{}, { "name": "b", "runFlux": false }] }),
        json!({ "services": [{ "name": "b", "commands": { "init": "x" } }] }),
        container(json!({ "command": "a", "batch": true })),
        volume(json!({ "emptyDir": true })),
        volume(json!({ "path": "/a" })),
    ] {
        let cluster = named("hello", spec(change.clone()));
        cluster.validate_cel().unwrap();
        validate(&cluster, &defaults()).unwrap();
    }
}
