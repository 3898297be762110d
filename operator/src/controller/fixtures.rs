//! Values for the unit tests of this module.

use crate::cluster::validate::{Defaults, validate};
use crate::cluster::{Cluster, FixedFields};
use crate::controller::build::{Desired, Images, agent_config, build};
use crate::controller::decide::ended_run::ENDED_RUN_ANNOTATION;
use crate::controller::observe::Live;
use crate::crd::{Install, MiniCluster};
use flux_contract::AgentConfig;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, Pod, PodCondition, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde_json::json;
use std::collections::BTreeMap;

/// A moment, `seconds` after the epoch.
pub(crate) fn at(seconds: i64) -> Time {
    Time(jiff::Timestamp::from_second(seconds).unwrap())
}

/// The operator's defaults.
pub(crate) fn defaults() -> Defaults {
    Defaults {
        view_image: "view".to_owned(),
        arm_view_image: "arm-view".to_owned(),
        install: Install::Auto,
    }
}

/// `echo hello` on four pods, with what `spec` adds.
pub(crate) fn cluster(spec: &serde_json::Value) -> Cluster {
    let mut object = json!({
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": { "name": "hello", "namespace": "apps", "uid": "u-1", "generation": 1 },
        "spec": { "size": 4, "containers": [{ "image": "app", "command": "echo hello" }] },
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    let object: MiniCluster = serde_json::from_value(object).unwrap();
    validate(&object, &defaults()).unwrap()
}

/// The operator's images; the agent's is `agent`.
pub(crate) fn images(agent: &str) -> Images {
    Images { agent: agent.to_owned(), agent_pull_policy: "IfNotPresent".to_owned() }
}

/// What is built of `cluster` where agent and view come by `install`.
pub(crate) fn built_with(cluster: &Cluster, install: flux_contract::Install) -> Desired {
    let config = AgentConfig { install, ..agent_config(cluster, None) };
    build(cluster, &config, &images("agent"), 1).unwrap()
}

/// What is built of `cluster`.
pub(crate) fn built(cluster: &Cluster, generation: i64) -> Desired {
    build(cluster, &agent_config(cluster, None), &images("agent"), generation).unwrap()
}

/// The Job of [`cluster`] of generation 1 with four pods, started at second 100.
pub(crate) fn job(ready: i32) -> Job {
    let mut job: Job = serde_json::from_value(json!({
        "metadata": {
            "name": "hello",
            "annotations": { "flux-framework.org/generation": "1" },
        },
        "spec": { "parallelism": 4, "completions": 4, "template": {} },
    }))
    .unwrap();
    job.status = Some(JobStatus {
        active: Some(4),
        ready: Some(ready),
        start_time: Some(at(100)),
        ..JobStatus::default()
    });
    job
}

/// The same Job, ended at second 200.
pub(crate) fn ended_job(type_: &str, reason: &str) -> Job {
    let mut job = job(0);
    let status = job.status.as_mut().unwrap();
    status.active = Some(0);
    status.failed = Some(i32::from(type_ == "Failed"));
    status.conditions = Some(vec![JobCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        last_transition_time: Some(at(200)),
        ..JobCondition::default()
    }]);
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
    annotations.insert(ENDED_RUN_ANNOTATION.to_owned(), note.to_string());
}

/// A pod in `phase` whose container `container` is in `state`.
pub(crate) fn pod(name: &str, phase: &str, container: &str, state: ContainerState) -> Pod {
    let ready = phase == "Running" && state.running.is_some();
    Pod {
        metadata: kube::core::ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("apps".to_owned()),
            ..Default::default()
        },
        status: Some(PodStatus {
            phase: Some(phase.to_owned()),
            conditions: Some(vec![PodCondition {
                type_: "Ready".to_owned(),
                status: if ready { "True" } else { "False" }.to_owned(),
                ..PodCondition::default()
            }]),
            container_statuses: Some(vec![ContainerStatus {
                name: container.to_owned(),
                state: Some(state),
                ..ContainerStatus::default()
            }]),
            ..PodStatus::default()
        }),
        ..Pod::default()
    }
}

/// A container that runs.
pub(crate) fn running() -> ContainerState {
    ContainerState { running: Some(ContainerStateRunning::default()), ..ContainerState::default() }
}

/// A container that waits.
pub(crate) fn waiting(reason: &str) -> ContainerState {
    ContainerState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message: None }),
        ..ContainerState::default()
    }
}

/// A container that ended with `exit_code`, leaving `message`.
pub(crate) fn ended(exit_code: i32, reason: &str, message: Option<&str>) -> ContainerState {
    ContainerState {
        terminated: Some(ContainerStateTerminated {
            exit_code,
            reason: Some(reason.to_owned()),
            message: message.map(str::to_owned),
            ..ContainerStateTerminated::default()
        }),
        ..ContainerState::default()
    }
}

/// Conditions as `type -> (status, reason)`.
pub(crate) fn table(status: &crate::crd::MiniClusterStatus) -> BTreeMap<&str, (&str, &str)> {
    let pairs = status.conditions.iter();
    pairs.map(|c| (c.type_.as_str(), (c.status.as_str(), c.reason.as_str()))).collect()
}
