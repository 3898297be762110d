//! What every container has; sidecars and services.

use crate::validate::{beside, container, good};
use serde_json::{Value, json};

#[test]
fn a_sidecar_without_ports_may_have_the_name_of_a_service() {
    for name in ["hello-lead", "hello", "lead"] {
        good(beside(json!({ "name": name })));
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
fn pull_always_wins_over_the_policy() {
    let policy =
        |change: Value| good(container(change)).runner.container.image_pull_policy.unwrap();
    assert_eq!(policy(json!({})), "IfNotPresent");
    assert_eq!(policy(json!({ "imagePullPolicy": "Never" })), "Never");
    assert_eq!(policy(json!({ "imagePullPolicy": "Never", "pullAlways": true })), "Always");
}

#[test]
fn lifecycle_hooks_are_argument_vectors() {
    let hooks = json!({ "lifeCycle": { "postStartExec": "touch /a", "preStopExec": "a; b" } });
    let lifecycle = json!(good(container(hooks)).runner.container.lifecycle);
    assert_eq!(lifecycle["postStart"]["exec"]["command"], json!(["touch", "/a"]));
    assert_eq!(lifecycle["preStop"]["exec"]["command"], json!(["sh", "-c", "a; b"]));
}
