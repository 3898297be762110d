//! One test a rule: what is refused, where, and what a specification means.

mod any;
mod cluster;
mod container;
mod definition;
mod flux;
mod no_effect;
mod pod;
mod runner;
mod volume;
mod work;

use flux_operator::{
    cluster::validate::{Defaults, Violations, validate},
    cluster::{Cluster, Work},
    crd::{Install, MiniCluster},
};
use serde_json::{Value, json};

fn defaults() -> Defaults {
    Defaults {
        view_image: "registry.test/view:1".to_owned(),
        arm_view_image: "registry.test/arm-view:1".to_owned(),
        install: Install::Auto,
    }
}

fn named(name: &str, spec: Value) -> MiniCluster {
    serde_json::from_value(json!({
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": { "name": name, "namespace": "apps", "uid": "u-1" },
        "spec": spec,
    }))
    .unwrap()
}

/// `change` on top of a specification that is in order.
fn spec(change: Value) -> Value {
    let mut spec = json!({ "size": 4, "containers": [{ "image": "app", "command": "run" }] });
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    spec
}

fn check(change: Value) -> Result<Cluster, Violations> {
    validate(&named("hello", spec(change)), &defaults())
}

fn good(change: Value) -> Cluster {
    check(change).unwrap()
}

fn faults(change: Value) -> Vec<String> {
    check(change).unwrap_err().0.into_iter().map(|violation| violation.path).collect()
}

/// `change` in the only container.
fn container(change: Value) -> Value {
    let mut container = json!({ "image": "app" });
    for (field, value) in change.as_object().unwrap() {
        container[field] = value.clone();
    }
    json!({ "containers": [container] })
}

/// A runner and a container beside it.
fn beside(sidecar: Value) -> Value {
    json!({ "containers": [{ "runFlux": true, "command": "run" }, sidecar] })
}

fn volume(volume: Value) -> Value {
    container(json!({ "volumes": { "data": volume } }))
}

fn submission(change: Value) -> flux_contract::Submission {
    match good(change).runner.work {
        Work::Submit(submission) => submission,
        other => panic!("{other:?}"),
    }
}
