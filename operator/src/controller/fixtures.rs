//! Values for the unit tests of this module.

use crate::controller::context::Context;
pub(crate) use flux_api::fixtures::{defaults, images, mini_cluster};
use http::{Request, Response};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use std::sync::Arc;
use tower_test::mock::Handle;

pub(crate) fn at(seconds: i64) -> Time {
    Time(jiff::Timestamp::from_second(seconds).unwrap())
}

/// A context, and the simulated API server that it talks to.
pub(crate) fn context() -> (Context, Handle<Request<Body>, Response<Body>>) {
    let (service, server) = tower_test::mock::pair();
    let client = Client::new(service, "apps");
    (Context::new(client, None, Arc::default(), images("agent"), defaults()), server)
}

/// The Job of a MiniCluster of generation 1 with four pods, started at second 100.
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

/// The Job of [`job`], ended at second 200.
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
