//! A server with one MiniCluster, and an operator that reconciles it.

use super::role;
use flux_api::crd::{MiniCluster, MiniClusterStatus};
use flux_contract::AgentConfig;
use flux_operator::controller::{Context, Error, Scope, reconcile_one, run};
use flux_operator::metrics::Metrics;
use flux_testkit::memory::Memory;
use flux_testkit::samples::{defaults, hello, images};
use flux_testkit::server::Server;
use kube::core::{ObjectMeta, PartialObjectMeta, PartialObjectMetaExt as _};
use kube::runtime::controller::Action;
use serde_json::{Value, json};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

pub(crate) const CLUSTER: &str =
    "/apis/flux-framework.org/v1alpha2/namespaces/work/miniclusters/hello";
pub(crate) const JOB: &str = "/apis/batch/v1/namespaces/work/jobs/hello";
pub(crate) const SERVICE: &str = "/api/v1/namespaces/work/services/hello";
pub(crate) const CONFIG: &str = "/api/v1/namespaces/work/configmaps/hello-agent";
pub(crate) const PODS: &str = "/api/v1/namespaces/work/pods";
pub(crate) const SECRETS: &str = "/api/v1/namespaces/work/secrets";
pub(crate) const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/work/events";

/// A server with one MiniCluster, and an operator that reconciles it.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) context: Arc<Context>,
    pub(crate) metrics: Arc<Metrics>,
}

impl World {
    pub(crate) fn new(spec: &Value) -> Self {
        let server = role::server();
        server.put(CLUSTER, serde_json::to_value(hello(spec)).unwrap());
        Self::of(server)
    }

    /// The same after its first reconcile.
    pub(crate) async fn reconciled(spec: &Value) -> Self {
        let world = Self::new(spec);
        world.reconcile().await.unwrap();
        world
    }

    /// The same server with another operator without memory.
    pub(crate) fn with_another_operator(&self) -> Self {
        Self::of(self.server.clone())
    }

    fn of(server: Server) -> Self {
        let metrics = Arc::new(Metrics::default());
        let context = Arc::new(new_operator(&server, &metrics));
        Self { server, context, metrics }
    }

    pub(crate) async fn reconcile(&self) -> Result<(), Error> {
        self.action().await.map(|_| ())
    }

    /// When to reconcile again, after a reconcile.
    pub(crate) async fn action(&self) -> Result<Action, Error> {
        reconcile_one(Arc::new(marker()), Arc::clone(&self.context)).await
    }

    /// The writes of one reconcile, without the Events.
    pub(crate) async fn writes(&self) -> Vec<String> {
        self.server.writes();
        self.reconcile().await.unwrap();
        self.writes_so_far()
    }

    pub(crate) fn writes_so_far(&self) -> Vec<String> {
        let mut writes = self.server.writes();
        writes.retain(|write| !write.ends_with(EVENTS));
        writes
    }

    pub(crate) fn edit(&self, generation: i64, edit: impl FnOnce(&mut Value)) {
        self.server.change(CLUSTER, |object| {
            object["metadata"]["generation"] = json!(generation);
            edit(&mut object["spec"]);
        });
    }

    pub(crate) fn status(&self) -> MiniClusterStatus {
        let object = self.server.get(CLUSTER).unwrap();
        serde_json::from_value(object["status"].clone()).unwrap()
    }

    /// The configuration that the agents of the MiniCluster read.
    pub(crate) fn agent_config(&self) -> AgentConfig {
        agent_config(&self.server)
    }

    /// Reasons and notes of all Events so far.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let bodies = self.server.bodies().into_iter().filter(|body| body["kind"] == "Event");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        bodies.map(|body| (text(&body["reason"]), text(&body["note"]))).collect()
    }

    pub(crate) fn condition(&self, type_: &str) -> (String, String, String) {
        let status = self.status();
        let found = status.conditions.into_iter().find(|condition| condition.type_ == type_);
        let found = found.unwrap();
        (found.status, found.reason, found.message)
    }
}

/// The configuration that the agents of the MiniCluster read.
pub(crate) fn agent_config(server: &Server) -> AgentConfig {
    let object = server.get(CONFIG).unwrap();
    AgentConfig::from_toml(object["data"]["agent.toml"].as_str().unwrap()).unwrap()
}

/// An operator without memory.
pub(crate) fn new_operator(server: &Server, metrics: &Arc<Metrics>) -> Context {
    let (name, metrics) = (Some("operator-0".to_owned()), Arc::clone(metrics));
    Context::new(server.client(), name, metrics, images(), defaults())
}

/// Runs the controller of the namespace for ever.
pub(crate) fn control(context: Arc<Context>) -> impl Future<Output = ()> {
    let scope = Scope { namespace: Some("work".to_owned()), concurrency: 2 };
    run(context, scope, || {}, pending())
}

/// Waits until `holds`, for at most a minute.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let met = async {
        while !holds() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let met = timeout(Duration::from_mins(1), met).await;
    assert!(met.is_ok(), "waited for: {what}");
}

/// A specification with a sidecar that has a port.
pub(crate) fn with_sidecar() -> Value {
    json!({ "containers": [
        { "image": "app", "command": "a", "runFlux": true },
        { "image": "web", "name": "web", "runFlux": false, "ports": [80] },
    ] })
}

/// The metadata of the MiniCluster in the controller's store.
pub(crate) fn marker() -> PartialObjectMeta<MiniCluster> {
    marker_of("hello")
}

/// The same of the MiniCluster `name`.
pub(crate) fn marker_of(name: &str) -> PartialObjectMeta<MiniCluster> {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("work".to_owned()),
        ..ObjectMeta::default()
    };
    metadata.into_response_partial::<MiniCluster>()
}

pub(crate) fn create(path: &str) -> String {
    format!("POST {}", path.rsplit_once('/').unwrap().0)
}

pub(crate) fn patch(path: &str) -> String {
    format!("PATCH {path}")
}

pub(crate) fn status() -> String {
    format!("PATCH {CLUSTER}/status")
}

pub(crate) fn finish(world: &World, type_: &str, exit_code: i32) {
    world.server.change(JOB, |job| {
        job["status"] = json!({
            "startTime": "2026-01-01T00:00:00Z",
            "failed": i32::from(exit_code != 0),
            "conditions": [{
                "type": type_, "status": "True", "reason": "BackoffLimitExceeded",
                "lastTransitionTime": "2026-01-01T00:01:00Z",
            }],
        });
    });
    let message = json!({
        "exitCode": exit_code,
        "commandRan": true,
        "jobid": "ƒUryWAs",
        "jobs": {
            "successful": 1, "failed": 2, "canceled": 3, "timedOut": 4, "unfinished": 5, "notRun": 6,
        },
        "failedTask": (exit_code != 0).then(|| json!({ "rank": 2, "host": "hello-2", "signal": 9 })),
        "output": (exit_code != 0).then_some("broken\n"),
        "phases": [{ "name": "command", "startMilliseconds": 5, "durationMilliseconds": 9 }],
    });
    let end = json!({ "exitCode": exit_code, "message": message.to_string() });
    put_pods(
        world,
        vec![json!({
            "metadata": of_the_job("hello-0-abcde", 0),
            "status": {
                "phase": if exit_code == 0 { "Succeeded" } else { "Failed" },
                "containerStatuses": [container("hello", &json!({ "terminated": end }))],
            },
        })],
    );
}

/// The status of a container that is not ready.
pub(crate) fn container(name: &str, state: &Value) -> Value {
    json!({
        "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state,
    })
}

/// The status of a pod whose runner, the container `name`, is ready.
pub(crate) fn ready(name: &str) -> Value {
    let mut runner = container(name, &json!({ "running": {} }));
    (runner["ready"], runner["started"]) = (json!(true), json!(true));
    json!({
        "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }],
        "containerStatuses": [runner],
    })
}

/// Metadata of a pod of the Job, as the Job controller gives it.
pub(crate) fn of_the_job(name: &str, index: u32) -> Value {
    json!({
        "name": name, "namespace": "work", "uid": name,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {
            "batch.kubernetes.io/job-name": "hello",
            "batch.kubernetes.io/controller-uid": "job-uid",
            "batch.kubernetes.io/job-completion-index": index.to_string(),
        },
        "ownerReferences": [
            { "apiVersion": "batch/v1", "kind": "Job", "name": "hello", "uid": "job-uid" },
        ],
    })
}

pub(crate) fn put_pods(world: &World, pods: Vec<Value>) {
    let of_job = |pod: &Value| pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "hello";
    world.server.with(|Memory { store, .. }| {
        for (path, _) in store.select(PODS, of_job) {
            store.remove(&path);
        }
        for pod in pods {
            store.put(&format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap()), pod);
        }
    });
}
