//! Whole looks at one MiniCluster, against an API server in memory.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use flux_operator::controller::{Context, Error, reconcile_one};
use flux_operator::crd::{MiniCluster, MiniClusterStatus, State};
use flux_operator::metrics::Metrics;
use kube::ResourceExt as _;
use kube::core::{ObjectMeta, PartialObjectMetaExt as _};
use serde_json::{Value, json};
use std::sync::Arc;
use support::server::Server;

const CLUSTER: &str = "/apis/flux-framework.org/v1alpha2/namespaces/work/miniclusters/hello";
const JOB: &str = "/apis/batch/v1/namespaces/work/jobs/hello";
const SERVICE: &str = "/api/v1/namespaces/work/services/hello";
const CONFIG: &str = "/api/v1/namespaces/work/configmaps/hello-agent";
const SECRET: &str = "/api/v1/namespaces/work/secrets/hello-curve";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/work/events";

/// A server with one MiniCluster, and an operator that looks at it.
struct World {
    server: Server,
    context: Arc<Context>,
}

impl World {
    fn new(spec: &Value) -> Self {
        let server = Server::default();
        server.put(CLUSTER, serde_json::to_value(support::hello(spec)).unwrap());
        let context = Context::new(
            server.client(),
            Some("operator-0".to_owned()),
            Arc::new(Metrics::new()),
            support::images(),
            support::defaults(),
        );
        Self { server, context: Arc::new(context) }
    }

    async fn look(&self) -> Result<(), Error> {
        let metadata = ObjectMeta {
            name: Some("hello".to_owned()),
            namespace: Some("work".to_owned()),
            ..ObjectMeta::default()
        };
        let marker = metadata.into_response_partial::<MiniCluster>();
        reconcile_one(Arc::new(marker), Arc::clone(&self.context)).await.map(|_| ())
    }

    /// The writes of one look, without the Events.
    async fn writes(&self) -> Vec<String> {
        self.look().await.unwrap();
        self.writes_so_far()
    }

    fn writes_so_far(&self) -> Vec<String> {
        let mut writes = self.server.writes();
        writes.retain(|write| !write.ends_with(EVENTS));
        writes
    }

    fn edit(&self, generation: i64, edit: impl FnOnce(&mut Value)) {
        self.server.change(CLUSTER, |object| {
            object["metadata"]["generation"] = json!(generation);
            edit(&mut object["spec"]);
        });
    }

    fn status(&self) -> MiniClusterStatus {
        let object = self.server.get(CLUSTER).unwrap();
        serde_json::from_value::<MiniCluster>(object).unwrap().status.unwrap()
    }

    fn condition(&self, type_: &str) -> (String, String, String) {
        let status = self.status();
        let found = status.conditions.into_iter().find(|condition| condition.type_ == type_);
        let found = found.unwrap();
        (found.status, found.reason, found.message)
    }
}

fn patch(path: &str) -> String {
    format!("PATCH {path}")
}

fn status() -> String {
    format!("PATCH {CLUSTER}/status")
}

#[tokio::test]
async fn the_first_look_applies_everything_in_order_and_reports_last() {
    let world = World::new(&json!({}));
    let writes = world.writes().await;
    let mut services = vec![writes[0].clone(), writes[1].clone()];
    services.sort();
    assert_eq!(services, [patch(SERVICE), patch(&format!("{SERVICE}-lead"))]);
    let secrets = "POST /api/v1/namespaces/work/secrets".to_owned();
    assert_eq!(writes[2..], [secrets, patch(CONFIG), patch(JOB), status()]);
    assert_eq!(world.status().state, Some(State::Pending));
}

#[tokio::test]
async fn the_leads_address_is_in_the_configuration() {
    let world = World::new(&json!({}));
    world.look().await.unwrap();
    let config = world.server.get(CONFIG).unwrap();
    assert!(config["data"]["agent.toml"].as_str().unwrap().contains("\"10.96.0.7\""));
}

#[tokio::test]
async fn a_settled_look_writes_nothing() {
    let world = World::new(&json!({}));
    world.look().await.unwrap();
    world.server.writes();
    world.look().await.unwrap();
    assert_eq!(world.server.writes(), [""; 0]);
}

#[tokio::test]
async fn the_certificate_is_written_to_the_secret_and_nowhere_else() {
    let world = World::new(&json!({}));
    world.look().await.unwrap();
    let secret = world.server.get(SECRET).unwrap();
    assert!(secret["stringData"]["curve.cert"].as_str().unwrap().contains("secret-key"));
    let others = world.server.bodies().into_iter().filter(|body| body["kind"] != "Secret");
    let others: Vec<String> = others.map(|body| body.to_string()).collect();
    assert!(others.len() > 4 && others.iter().all(|body| !body.contains("secret-key")));
}

#[tokio::test]
async fn an_object_changed_by_hand_is_brought_back() {
    let world = World::new(&json!({}));
    world.look().await.unwrap();
    world.server.writes();
    world.server.change(SERVICE, |service| service["spec"]["ports"] = json!([]));
    assert_eq!(world.writes().await, [patch(SERVICE)]);
}

#[tokio::test]
async fn an_invalid_specification_is_reported_and_nothing_is_applied() {
    let world = World::new(&json!({ "maxSize": 2, "minSize": 9 }));
    assert_eq!(world.writes().await, [status()]);
    let (accepted, _, message) = world.condition("Accepted");
    assert_eq!(accepted, "False");
    assert!(message.contains("maxSize") && message.contains("minSize"), "{message}");
    assert_eq!(world.writes().await, [""; 0]);
}

#[tokio::test]
async fn another_size_patches_the_job() {
    let world = World::new(&json!({ "maxSize": 6 }));
    world.look().await.unwrap();
    world.server.writes();
    world.edit(2, |spec| spec["size"] = json!(6));
    let writes = world.writes().await;
    assert_eq!(writes, [patch(CONFIG), patch(JOB), status()]);
    let job = world.server.get(JOB).unwrap();
    assert_eq!((&job["spec"]["parallelism"], &job["spec"]["completions"]), (&json!(6), &json!(6)));
    assert_eq!(world.status().size, 6);
    assert_eq!(world.writes().await, [""; 0]);
}

#[tokio::test]
async fn a_size_above_the_hosts_flux_was_started_with_is_refused() {
    let world = World::new(&json!({}));
    world.look().await.unwrap();
    world.edit(2, |spec| spec["size"] = json!(9));
    world.look().await.unwrap();
    assert_eq!(world.server.get(JOB).unwrap()["spec"]["parallelism"], 4);
    let (progressing, reason, message) = world.condition("Progressing");
    assert_eq!((progressing.as_str(), reason.as_str()), ("False", "ChangeRefused"));
    assert!(message.contains("size 9"), "{message}");
    assert_eq!(world.status().maximum_size, 4);
}

#[tokio::test]
async fn a_smaller_size_leaves_the_hosts_as_they_are() {
    let world = World::new(&json!({}));
    world.look().await.unwrap();
    world.edit(2, |spec| spec["size"] = json!(2));
    world.look().await.unwrap();
    let config = world.server.get(CONFIG).unwrap();
    let text = config["data"]["agent.toml"].as_str().unwrap().to_owned();
    assert!(text.contains("hello-[0-3]") && text.contains("quorum = 2"), "{text}");
    assert_ne!(world.condition("Progressing").1, "ChangeRefused");
}

#[tokio::test]
async fn a_changed_image_or_command_is_refused_by_name() {
    let world = World::new(&json!({}));
    world.look().await.unwrap();
    world.server.writes();
    world.edit(2, |spec| {
        spec["containers"][0]["image"] = json!("other");
        spec["containers"][0]["command"] = json!("echo other");
    });
    assert_eq!(world.writes().await, [status()]);
    let (_, reason, message) = world.condition("Progressing");
    assert_eq!(reason, "ChangeRefused");
    assert!(message.contains("the command"), "{message}");
    assert!(message.contains("template.spec.containers[hello].image"), "{message}");
}

#[tokio::test]
async fn a_refused_job_becomes_a_condition_and_is_tried_again() {
    let world = World::new(&json!({}));
    world.server.refuse(JOB, 403, "exceeded quota: pods");
    let error = world.look().await.unwrap_err();
    assert_eq!(error.category(), "ApplyFailed");
    let (progressing, reason, message) = world.condition("Progressing");
    assert_eq!((progressing.as_str(), reason.as_str()), ("False", "ApplyFailed"));
    assert!(message.contains("exceeded quota"), "{message}");
    world.server.accept_all();
    world.look().await.unwrap();
    assert_eq!(world.condition("Progressing").0, "True");
}

#[tokio::test]
async fn an_object_of_somebody_else_is_left_alone() {
    let world = World::new(&json!({}));
    let foreign = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "hello" }, "spec": {},
    });
    world.server.put(SERVICE, foreign.clone());
    assert_eq!(world.look().await.unwrap_err().category(), "NameTaken");
    assert_eq!(world.server.get(SERVICE).unwrap(), foreign);
}

#[tokio::test]
async fn an_object_of_a_deleted_namesake_is_waited_for() {
    let world = World::new(&json!({}));
    let owner = json!([{
        "apiVersion": "flux-framework.org/v1alpha2", "kind": "MiniCluster", "name": "hello",
        "uid": "of-the-one-before",
    }]);
    world.server.put(
        SECRET,
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "hello-curve", "ownerReferences": owner },
        }),
    );
    assert_eq!(world.look().await.unwrap_err().category(), "WaitingForDeletion");
    assert!(world.server.get(JOB).is_none());
}

fn finish(world: &World, type_: &str, exit_code: i32) {
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
    let message = format!(r#"{{"exitCode":{exit_code},"commandRan":true}}"#);
    world.server.put_pods(vec![json!({
        "metadata": {
            "name": "hello-0-abcde",
            "ownerReferences": [
                { "apiVersion": "batch/v1", "kind": "Job", "name": "hello", "uid": "job-uid" },
            ],
        },
        "status": {
            "phase": if exit_code == 0 { "Succeeded" } else { "Failed" },
            "containerStatuses": [{
                "name": "hello", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": { "terminated": { "exitCode": exit_code, "message": message } },
            }],
        },
    })]);
}

#[tokio::test]
async fn a_finished_job_is_reported_and_nothing_is_applied_any_more() {
    let world = World::new(&json!({}));
    world.look().await.unwrap();
    world.server.writes();
    finish(&world, "Failed", 7);
    world.server.remove(SERVICE);
    assert_eq!(world.writes().await, [status()]);
    assert_eq!((world.status().exit_code, world.status().state), (Some(7), Some(State::Failed)));
    assert_eq!(world.writes().await, [""; 0]);
}

#[tokio::test]
async fn a_finished_job_that_was_deleted_is_not_run_again() {
    let world = World::new(&json!({}));
    world.look().await.unwrap();
    finish(&world, "Failed", 7);
    world.look().await.unwrap();
    world.server.writes();
    world.server.remove(JOB);
    assert_eq!(world.writes().await, [""; 0]);
    assert_eq!(world.status().exit_code, Some(7));
}

#[tokio::test]
async fn a_changed_specification_runs_again_once_the_finished_job_is_deleted() {
    let world = World::new(&json!({}));
    world.look().await.unwrap();
    finish(&world, "Failed", 7);
    world.look().await.unwrap();
    world.server.remove(JOB);
    world.server.put_pods(vec![]);
    world.edit(2, |spec| spec["containers"][0]["command"] = json!("echo again"));
    assert!(world.writes().await.contains(&patch(JOB)));
    assert_eq!((world.status().exit_code, world.status().state), (None, Some(State::Pending)));
}

#[tokio::test]
async fn cleanup_deletes_the_mini_cluster_when_its_lead_has_finished() {
    let world = World::new(&json!({ "cleanup": true }));
    world.look().await.unwrap();
    finish(&world, "Complete", 0);
    world.server.writes();
    // The server in memory does not delete: what counts is that it was asked to.
    assert_eq!(world.look().await.unwrap_err().category(), "DeleteFailed");
    assert_eq!(world.writes_so_far(), [status(), format!("DELETE {CLUSTER}")]);
}

#[tokio::test]
async fn a_deleted_mini_cluster_is_nothing_to_do() {
    let world = World::new(&json!({}));
    world.server.remove(CLUSTER);
    assert_eq!(world.writes().await, [""; 0]);
}

#[tokio::test]
async fn an_event_that_cannot_be_written_stops_nothing() {
    let world = World::new(&json!({}));
    world.server.refuse(EVENTS, 403, "no events for you");
    assert!(world.writes().await.contains(&patch(JOB)));
}

#[tokio::test]
async fn a_newer_operator_leaves_a_running_job_alone() {
    let world = World::new(&json!({}));
    world.look().await.unwrap();
    world.server.writes();
    // As an older operator would have built it.
    world.server.change(JOB, |job| {
        job["metadata"]["annotations"]["flux-framework.org/template"] = json!("spec.volumes=0");
    });
    assert_eq!(world.writes().await, [""; 0]);
    assert_ne!(world.condition("Progressing").1, "ChangeRefused");
    let object: MiniCluster = serde_json::from_value(world.server.get(CLUSTER).unwrap()).unwrap();
    assert_eq!(object.name_any(), "hello");
}
