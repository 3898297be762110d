//! One test a rule: what is refused, where, and what a specification means.

mod cluster;
mod container;
mod flux;
mod pod;
mod refused;
mod runner;
mod volume;
mod work;

use crate::support::{cluster, hello};
use flux_contract::Workload;
use flux_operator::cluster::Cluster;
use serde_json::{Value, json};

fn good(change: Value) -> Cluster {
    cluster(&hello(&change))
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

fn submission(change: Value) -> flux_contract::Submission {
    match good(change).runner.workload {
        Workload::Submit { submission } => submission,
        other => panic!("{other:?}"),
    }
}
