//! Values for the unit tests of this module.

use crate::cluster::validate::{Defaults, validate};
use crate::cluster::{Cluster, FixedFields};
use crate::controller::build::{Desired, Images, agent_config, build};
use crate::controller::context::Context;
use crate::controller::decide::record::RECORD_ANNOTATION;
use crate::controller::observe::Live;
use crate::crd::{Install, MiniCluster};
use flux_contract::AgentConfig;
use http::{Request, Response};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::client::Body;
use kube::{Client, ResourceExt as _};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tower_test::mock::Handle;

pub(crate) fn at(seconds: i64) -> Time {
    Time(jiff::Timestamp::from_second(seconds).unwrap())
}

/// A condition that became what it is at second `second`.
pub(crate) fn condition(type_: &str, status: &str, reason: &str, second: i64) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: "text".to_owned(),
        observed_generation: None,
        last_transition_time: at(second),
    }
}

/// What works with the API server beside it.
pub(crate) fn context() -> (Context, Handle<Request<Body>, Response<Body>>) {
    let (service, server) = tower_test::mock::pair();
    let client = Client::new(service, "apps");
    (Context::new(client, None, Arc::default(), images("agent"), defaults()), server)
}

pub(crate) fn defaults() -> Defaults {
    Defaults {
        view_image: "view".to_owned(),
        arm_view_image: "arm-view".to_owned(),
        install: Install::Auto,
        cluster_domain: None,
    }
}

pub(crate) fn cluster(spec: &serde_json::Value) -> Cluster {
    validate(&mini_cluster(spec), &defaults()).unwrap()
}

/// `echo hello` on four pods, with what `spec` adds.
pub(crate) fn mini_cluster(spec: &serde_json::Value) -> MiniCluster {
    let mut object = json!({
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": { "name": "hello", "namespace": "apps", "uid": "u-1", "generation": 1 },
        "spec": { "size": 4, "containers": [{ "image": "app", "command": "echo hello" }] },
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    for list in ["containers", "services"] {
        let containers = object["spec"].get_mut(list).and_then(|it| it.as_array_mut());
        for container in containers.into_iter().flatten() {
            container.as_object_mut().unwrap().entry("image").or_insert_with(|| "app".into());
        }
    }
    serde_json::from_value(object).unwrap()
}

pub(crate) fn images(agent: &str) -> Images {
    Images { agent: agent.to_owned(), agent_pull_policy: "IfNotPresent".to_owned() }
}

pub(crate) fn built_with(cluster: &Cluster, install: flux_contract::Install) -> Desired {
    let config = AgentConfig { install, ..agent_config(cluster, None) };
    build(cluster, &config, &images("agent"), 1).unwrap()
}

pub(crate) fn built(cluster: &Cluster, generation: i64) -> Desired {
    build(cluster, &agent_config(cluster, None), &images("agent"), generation).unwrap()
}

/// The Job of [`cluster`] of generation 1 with four pods, started at second 100.
pub(crate) fn job(ready: i32) -> Job {
    serde_json::from_value(json!({
        "metadata": {
            "name": "hello",
            "annotations": { "flux-framework.org/generation": "1" },
        },
        "spec": { "parallelism": 4, "completions": 4, "template": {} },
        "status": { "active": 4, "ready": ready, "startTime": at(100) },
    }))
    .unwrap()
}

/// The same Job, ended at second 200.
pub(crate) fn ended_job(type_: &str, reason: &str) -> Job {
    let mut job = job(0);
    let condition = json!({
        "type": type_, "status": "True", "reason": reason, "lastTransitionTime": at(200),
    });
    job.status = serde_json::from_value(json!({
        "active": 0, "ready": 0, "failed": i32::from(type_ == "Failed"), "startTime": at(100),
        "conditions": [condition],
    }))
    .unwrap();
    job
}

/// Notes on the `ConfigMap` of `live` that its Job has failed, and takes the Job away.
pub(super) fn delete_failed_job(live: &mut Live) {
    let job = live.job.take().unwrap();
    let note = json!({
        "job": "job-uid", "generation": 1, "complete": false, "reason": "CommandFailed",
        "fields": FixedFields::noted_hash(job.annotations()),
        "message": "", "a field of another release": 1,
    });
    let annotations = live.config_map.as_mut().unwrap().annotations_mut();
    annotations.insert(RECORD_ANNOTATION.to_owned(), note.to_string());
}

pub(crate) fn pod(name: &str, phase: &str, container: &str, state: ContainerState) -> Pod {
    let ready = if phase == "Running" && state.running.is_some() { "True" } else { "False" };
    let container = ContainerStatus {
        name: container.to_owned(),
        state: Some(state),
        ..ContainerStatus::default()
    };
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "apps" },
        "status": {
            "phase": phase, "conditions": [{ "type": "Ready", "status": ready }],
            "containerStatuses": [container],
        },
    }))
    .unwrap()
}

pub(crate) fn ready_lead() -> Pod {
    let mut lead = pod("hello-0", "Running", "hello", running());
    lead.status.as_mut().unwrap().container_statuses.as_mut().unwrap()[0].ready = true;
    lead
}

pub(crate) fn running() -> ContainerState {
    serde_json::from_value(json!({ "running": {} })).unwrap()
}

pub(crate) fn waiting(reason: &str) -> ContainerState {
    serde_json::from_value(json!({ "waiting": { "reason": reason } })).unwrap()
}

/// A container that ended with `exit_code`, leaving `message`.
pub(crate) fn ended(exit_code: i32, reason: &str, message: Option<&str>) -> ContainerState {
    let end = json!({ "exitCode": exit_code, "reason": reason, "message": message });
    serde_json::from_value(json!({ "terminated": end })).unwrap()
}

/// Conditions as `type -> (status, reason)`.
pub(crate) fn table(status: &crate::crd::MiniClusterStatus) -> BTreeMap<&str, (&str, &str)> {
    let pairs = status.conditions.iter();
    pairs.map(|c| (c.type_.as_str(), (c.status.as_str(), c.reason.as_str()))).collect()
}
