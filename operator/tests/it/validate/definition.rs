//! What the definition refuses, when the API server runs its rules and when the operator does.

use crate::support::CERTIFICATE;
use crate::validate::{container, defaults, faults, named, spec, volume};
use flux_operator::cluster::validate::validate;
use serde_json::{Value, json};

#[test]
fn values_out_of_range_are_refused_with_their_place_and_range() {
    for (change, path) in [
        (json!({ "size": 0, "maxSize": 5 }), "size"),
        (json!({ "maxSize": 100_001 }), "maxSize"),
        (json!({ "minSize": 0 }), "minSize"),
        (json!({ "tasks": -1 }), "tasks"),
        (json!({ "deadlineSeconds": 0 }), "deadlineSeconds"),
        (json!({ "startDeadlineSeconds": 0 }), "startDeadlineSeconds"),
        (json!({ "ttlSecondsAfterFinished": -1 }), "ttlSecondsAfterFinished"),
        (json!({ "backoffLimit": -1 }), "backoffLimit"),
        (json!({ "containers": [] }), "containers"),
        (json!({ "flux": { "arch": "vax" } }), "flux.arch"),
        (json!({ "flux": { "logLevel": 8 } }), "flux.logLevel"),
        (json!({ "flux": { "drainSeconds": -1 } }), "flux.drainSeconds"),
        (json!({ "flux": { "drainSeconds": 604_801 } }), "flux.drainSeconds"),
        (container(json!({ "ports": [80, 65536] })), "containers[0].ports[1]"),
        (container(json!({ "cores": 0 })), "containers[0].cores"),
        (container(json!({ "fluxUser": { "uid": 0 } })), "containers[0].fluxUser.uid"),
        (volume(json!({ "path": "/a", "claimName": "" })), "containers[0].volumes[data].claimName"),
    ] {
        let text = change.to_string();
        assert_eq!(faults(change), [format!("spec.{path}")], "{text}");
    }
    let refused = validate(&named("hello", spec(json!({ "size": 0 }))), &defaults()).unwrap_err();
    assert_eq!(refused.to_string(), "spec.size: 0 is out of range: give 1 to 100000");
}

/// Checks that the API server and the operator refuse `change`, the latter at `path`.
fn assert_refused(change: &Value, path: &str) {
    let cluster = named("hello", spec(change.clone()));
    assert!(cluster.validate_cel().is_err(), "the API server accepts {change}");
    assert_eq!(faults(change.clone()), [format!("spec.{path}")], "{change}");
}

#[test]
fn what_containers_must_not_say_together_is_refused_by_both() {
    for (change, path) in [
        (json!({ "maxSize": 3 }), "maxSize"),
        (json!({ "minSize": 5 }), "minSize"),
        (json!({ "containers": [{ "runFlux": true }, { "runFlux": true }] }), "containers"),
        (json!({ "containers": [{ "name": "a" }, { "name": "b" }] }), "containers"),
        (json!({ "containers": [{ "runFlux": true }, {}] }), "containers"),
        (json!({ "containers": [{}, { "runFlux": false }] }), "containers"),
        (
            json!({ "launcher": true, "containers": [{ "command": "a", "batch": true }] }),
            "launcher",
        ),
        (json!({ "services": [{}] }), "services"),
        (json!({ "services": [{ "name": "a", "commands": { "pre": "b" } }] }), "services"),
        (json!({ "services": [{ "name": "a", "commands": { "brokerPre": "b" } }] }), "services"),
        (json!({ "services": [{ "name": "a", "commands": { "preWorker": "b" } }] }), "services"),
        (
            container(json!({ "command": "a", "launcher": true, "batch": true })),
            "containers[0].launcher",
        ),
        (
            container(json!({ "command": "a", "commands": { "script": "b" } })),
            "containers[0].command",
        ),
        (container(json!({ "fluxUser": {}, "fluxuser": {} })), "containers[0].fluxuser"),
        (
            container(json!({ "commands": { "workerPre": "a", "preWorker": "b" } })),
            "containers[0].commands.preWorker",
        ),
        (
            container(json!({ "commands": { "brokerPre": "a", "preBroker": "b" } })),
            "containers[0].commands.preBroker",
        ),
        (
            volume(json!({ "path": "/a", "hostPath": "/a", "emptyDir": true })),
            "containers[0].volumes.data",
        ),
        (volume(json!({ "hostPath": "/a" })), "containers[0].volumes.data.path"),
        (
            volume(json!({ "path": "/a", "emptyDirSizeLimit": "64 Gi" })),
            "containers[0].volumes.data.emptyDirSizeLimit",
        ),
    ] {
        assert_refused(&change, path);
    }
}

#[test]
fn what_flux_cannot_be_told_together_is_refused_by_both() {
    let lead = json!({ "address": "a", "name": "r", "size": 1, "hostlist": "r-0,hello-[0-3]" });
    for (change, path) in [
        (
            json!({ "flux": { "curveCert": CERTIFICATE, "curveCertSecret": "b" } }),
            "flux.curveCertSecret",
        ),
        (
            json!({ "flux": { "leadBroker": lead, "bursting": { "leadBroker": lead } } }),
            "flux.leadBroker",
        ),
        (
            json!({ "flux": { "leadBroker": lead, "bursting": { "hostlist": "r-0,hello-[0-3]" } } }),
            "flux.leadBroker.hostlist",
        ),
        (
            json!({ "flux": { "leadBroker": lead, "bursting": { "clusters": [{}] } } }),
            "flux.leadBroker.hostlist",
        ),
        (
            json!({ "flux": { "bursting": { "hostlist": "hello-[0-3]", "clusters": [{}] } } }),
            "flux.bursting.hostlist",
        ),
        (
            json!({ "flux": { "bursting": { "leadBroker": lead, "hostlist": "r-0,hello-[0-3]" } } }),
            "flux.bursting.hostlist",
        ),
    ] {
        assert_refused(&change, path);
    }
}

#[test]
fn a_name_that_would_not_fit_is_refused_by_both() {
    for name in ["a".repeat(53), "0a".to_owned(), "A".to_owned(), "a.b".to_owned()] {
        let cluster = named(&name, spec(json!({})));
        assert!(cluster.validate_cel().is_err(), "{name}");
        let faults = validate(&cluster, &defaults()).unwrap_err();
        assert_eq!(faults.0[0].path, "metadata.name", "{name}");
    }
}
