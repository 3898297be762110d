//! Where the simulation must act as a real cluster does.
#![expect(clippy::unwrap_used, reason = "these are tests, helpers included")]

use flux_api::cluster::validate::validate;
use flux_api::render::render;
use flux_testkit::access::Access;
use flux_testkit::job::pods_of;
use flux_testkit::kubelet::Kubernetes;
use flux_testkit::pod_status::set_unready;
use flux_testkit::refusal::Refusal;
use flux_testkit::rules::admit;
use flux_testkit::samples::{defaults, hello, images};
use flux_testkit::server::Server;
use flux_testkit::store::Store;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use std::sync::Arc;

const JOB: &str = "/apis/batch/v1/namespaces/work/jobs/hello";
const CONFIG: &str = "/api/v1/namespaces/work/configmaps/hello-agent";

fn changed(old: &Value, path: &str, value: Value) -> Result<Value, Refusal> {
    let mut new = old.clone();
    *new.pointer_mut(path).unwrap() = value;
    admit(old, &mut new).map(|()| new)
}

#[test]
fn a_job_keeps_its_template_and_the_metadata_of_the_server() {
    let job = json!({
        "kind": "Job", "metadata": { "generation": 1 },
        "spec": {
            "completionMode": "Indexed", "completions": 4, "parallelism": 4, "template": {},
            "activeDeadlineSeconds": 5,
        },
    });
    for (path, value) in [("/spec/template", json!({ "a": 1 })), ("/spec/completions", json!(2))] {
        assert_eq!(changed(&job, path, value).unwrap_err().code, 422, "{path}");
    }
    let with_label = changed(&job, "/metadata", json!({ "uid": "another", "generation": 9 }));
    assert_eq!(with_label.unwrap()["metadata"], json!({ "generation": 1 }));
}

/// A cluster with the objects of a MiniCluster of two, whose command runs once.
struct Cluster {
    store: Store,
    kubernetes: Kubernetes,
}

impl Cluster {
    /// Its run is recorded, as the operator does.
    fn with_job() -> Self {
        let cluster = validate(&hello(&json!({ "size": 2 })), &defaults()).unwrap();
        let mut store = Store::default();
        for document in render(&cluster, &images()).unwrap() {
            let group = if document["kind"] == "Job" { "/apis/batch/v1" } else { "/api/v1" };
            let plural = document["kind"].as_str().unwrap().to_lowercase();
            store.create(&format!("{group}/namespaces/work/{plural}s"), &document).unwrap();
        }
        let volumes = &store.get(JOB).unwrap()["spec"]["template"]["spec"]["volumes"];
        let mut volumes = volumes.as_array().unwrap().iter();
        let items = volumes.find_map(|volume| volume["configMap"]["items"].as_array()).unwrap();
        let run = items[1]["key"].as_str().unwrap().to_owned();
        store.merge(CONFIG, &json!({ "data": { run: "" } })).unwrap();
        Self { store, kubernetes: Kubernetes::default() }
    }

    /// Lets Job controller and kubelet do so many things.
    fn act(&mut self, times: usize) {
        for _ in 0..times {
            self.kubernetes.act(&mut self.store);
        }
    }

    fn job(&self) -> &Value {
        self.store.get(JOB).unwrap()
    }

    fn pods(&self) -> Vec<(String, Arc<Value>)> {
        pods_of(&self.store, JOB, "job-uid")
    }

    fn suspend(&mut self, suspend: bool) {
        self.store.merge(JOB, &json!({ "spec": { "suspend": suspend } })).unwrap();
    }
}

#[test]
fn a_suspension_deletes_the_pods_and_counts_them_nowhere() {
    let mut cluster = Cluster::with_job();
    cluster.act(5);
    assert_eq!(cluster.kubernetes.kubelet.runs.len(), 1, "the command runs");
    cluster.suspend(true);
    cluster.kubernetes.jobs.sync(&mut cluster.store);
    let pods = cluster.pods();
    assert_eq!(pods.len(), 2, "they have time to end");
    assert!(pods.iter().all(|(_, pod)| pod["metadata"].get("finalizers").is_none()));
    cluster.kubernetes.kubelet.step(&mut cluster.store);
    let ended = cluster.pods();
    let code = &ended[0].1["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"];
    assert_eq!(*code, 75, "their end can be seen now");
    cluster.act(3);
    assert!(cluster.pods().is_empty());
    let status = &cluster.job()["status"];
    assert_eq!((&status["active"], &status["failed"]), (&json!(0), &json!(0)));
    assert_eq!(status["conditions"][0]["type"], "Suspended");
    assert!(status.get("startTime").is_none());
    cluster.suspend(false);
    cluster.act(5);
    assert_eq!(cluster.kubernetes.kubelet.runs.len(), 2, "the command begins again");
    let status = &cluster.job()["status"];
    assert_eq!(status["conditions"][0]["status"], "False");
    assert!(status["startTime"].is_string());
}

#[test]
fn a_pod_that_was_deleted_before_a_suspension_counts() {
    let mut cluster = Cluster::with_job();
    cluster.act(5);
    let (lead, _) = cluster.pods().remove(0);
    cluster.store.delete(&lead, &Value::Null).unwrap();
    cluster.suspend(true);
    cluster.act(4);
    assert!(cluster.kubernetes.jobs.suspended_pods.len() == 1, "the worker");
    assert_eq!(cluster.job()["status"]["failed"], 1);
}

#[test]
fn lost_nodes_keep_their_pods_until_they_are_given_up() {
    let mut cluster = Cluster::with_job();
    cluster.act(5);
    cluster.kubernetes.kubelet.nodes.lose(0, &cluster.store);
    let (lead, _) = cluster.pods().remove(0);
    cluster.store.delete(&lead, &Value::Null).unwrap();
    cluster.act(3);
    assert!(cluster.store.get(&lead).is_some(), "its node does not report its end");
    let mut other = Cluster::with_job();
    other.act(5);
    other.kubernetes.kubelet.nodes.lose(0, &other.store);
    set_unready(&mut other.store, &lead);
    assert!(other.kubernetes.kubelet.nodes.find(0));
    other.act(3);
    assert_eq!(other.kubernetes.kubelet.runs.len(), 1, "it still ran");
    cluster.kubernetes.kubelet.nodes.give_up(0, &mut cluster.store);
    let status = &cluster.store.get(&lead).unwrap()["status"];
    assert_eq!(
        (&status["phase"], &status["conditions"][2]["reason"]),
        (&json!("Failed"), &json!("DeletionByPodGC"))
    );
    cluster.act(1);
    assert!(cluster.store.get(&lead).is_none(), "it was counted");
}

#[tokio::test]
async fn clients_without_a_role_may_do_nothing() {
    let config_maps: Api<ConfigMap> =
        Api::namespaced(Server::new(Access::default()).client(), "work");
    let mut object = ConfigMap::default();
    object.metadata.name = Some("settings".to_owned());
    let created = config_maps.create(&PostParams::default(), &object).await;
    assert!(created.is_err(), "{created:?}");
}
