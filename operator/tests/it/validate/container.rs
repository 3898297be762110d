//! What every container has; sidecars and services.

use crate::validate::{beside, check, container, faults, good};
use serde_json::{Value, json};

#[test]
fn a_sidecar_needs_a_name_of_its_own() {
    assert_eq!(faults(beside(json!({}))), ["spec.containers[1].name"]);
    for name in ["hello", "flux-agent", "flux-view", "Upper", "a_b"] {
        assert_eq!(faults(beside(json!({ "name": name }))), ["spec.containers[1].name"], "{name}");
    }
}

#[test]
fn a_sidecar_with_ports_needs_a_name_fit_for_a_service() {
    assert!(check(beside(json!({ "name": "0db" }))).is_ok());
    for name in ["0db", "hello-lead"] {
        let sidecar = beside(json!({ "name": name, "ports": [80] }));
        assert!(faults(sidecar).iter().all(|path| path == "spec.containers[1].name"), "{name}");
    }
}

#[test]
fn a_sidecar_keeps_its_entrypoint_when_asked_to() {
    let cluster = good(beside(json!({ "name": "web", "noWrapEntrypoint": true })));
    assert_eq!(cluster.sidecars[0].wrapped, None);
    let mut change = beside(json!({ "name": "web", "command": "serve" }));
    change["flux"] = json!({ "noWaitSocket": true });
    let wrapped = good(change).sidecars[0].wrapped.clone().unwrap();
    assert_eq!((wrapped.wait_for_socket, wrapped.command.as_deref()), (false, Some("serve")));
}

#[test]
fn a_sidecar_with_nothing_to_run_keeps_its_entrypoint() {
    let cluster = good(beside(json!({ "name": "registry", "ports": [5000] })));
    assert_eq!(cluster.sidecars[0].wrapped, None);
    for hook in ["init", "servicePre", "post"] {
        let cluster = good(beside(json!({ "name": "api", "commands": { hook: "serve" } })));
        assert!(cluster.sidecars[0].wrapped.is_some(), "{hook}");
    }
}

#[test]
fn a_service_needs_a_name_and_has_no_flux_hooks() {
    assert_eq!(faults(json!({ "services": [{}] })), ["spec.services[0].name"]);
    for hook in ["pre", "brokerPre", "workerPre"] {
        let services = json!([{ "name": "db", "commands": { hook: "x" } }]);
        assert_eq!(
            faults(json!({ "services": services })),
            [format!("spec.services[0].commands.{hook}")]
        );
    }
}

#[test]
fn values_kubernetes_would_refuse_are_refused_with_their_place() {
    for (change, path) in [
        (json!({ "image": "" }), "image"),
        (json!({ "image": "ubuntu:24.04 " }), "image"),
        (json!({ "image": "Ubuntu:24.04" }), "image"),
        (
            json!({ "resources": { "limits": { "cpu": 1 }, "requests": { "cpu": "1100m" } } }),
            "resources.requests[cpu]",
        ),
        (json!({ "imagePullPolicy": "Sometimes" }), "imagePullPolicy"),
        (json!({ "imagePullSecret": "A" }), "imagePullSecret"),
        (json!({ "workingDir": "here" }), "workingDir"),
        (json!({ "ports": [0] }), "ports[0]"),
        (json!({ "ports": [80, 65536] }), "ports[1]"),
        (json!({ "ports": [80, 80] }), "ports[1]"),
        (json!({ "environment": { "A=B": "" } }), "environment[A=B]"),
        (json!({ "secrets": { "1A": { "name": "s", "key": "k" } } }), "secrets[1A]"),
        (json!({ "secrets": { "A": { "name": "S", "key": "k" } } }), "secrets[A].name"),
        (json!({ "secrets": { "A": { "name": "s", "key": "" } } }), "secrets[A].key"),
        (
            json!({ "secrets": { "A": { "name": "s", "key": "k" } }, "environment": { "A": "" } }),
            "secrets[A]",
        ),
        (json!({ "resources": { "limits": { "cpu": "four" } } }), "resources.limits[cpu]"),
        (json!({ "batch": true, "command": "a", "logs": "out" }), "logs"),
    ] {
        assert_eq!(faults(container(change)), [format!("spec.containers[0].{path}")]);
    }
}

#[test]
fn pull_always_wins_over_the_policy() {
    let policy = |change: Value| good(container(change)).runner.container.pull_policy;
    assert_eq!(policy(json!({})), "IfNotPresent");
    assert_eq!(policy(json!({ "imagePullPolicy": "Never" })), "Never");
    assert_eq!(policy(json!({ "imagePullPolicy": "Never", "pullAlways": true })), "Always");
}

#[test]
fn lifecycle_hooks_are_argument_vectors() {
    let hooks = json!({ "lifeCycle": { "postStartExec": "touch /a", "preStopExec": "a; b" } });
    let container = good(container(hooks)).runner.container;
    assert_eq!(container.post_start.unwrap(), ["touch", "/a"]);
    assert_eq!(container.pre_stop.unwrap(), ["sh", "-c", "a; b"]);
}
