//! The simulation of Kubernetes that the model is played in: where it must be as the real one is.

use crate::support::simulation::job::{JobController, is_suspended, pods_of};
use crate::support::simulation::kubelet::Kubelet;
use crate::support::simulation::queue;
use crate::support::simulation::refusal::Refusal;
use crate::support::simulation::rules::{admit, fill_in};
use crate::support::simulation::selectors::Selection;
use crate::support::simulation::store::Store;
use crate::support::world::{JOB, PODS};
use json_patch::merge;
use serde_json::{Value, json};
use std::sync::Arc;

#[test]
fn a_term_asks_for_a_value_another_value_a_key_or_none() {
    let object =
        json!({ "metadata": { "labels": { "index": "1" } }, "status": { "phase": "Failed" } });
    let has = |labels: &str, fields: &str| {
        let query = [("labelSelector", labels), ("fieldSelector", fields)];
        let query = query.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Selection::of(&query.into()).has(&object)
    };
    for term in ["index=1", "index!=0", "other!=0", "index", "!other", "index,index!=0", ""] {
        assert!(has(term, "status.phase=Failed"), "{term}");
    }
    for term in ["index=0", "index!=1", "other", "!index", "index,index!=1"] {
        assert!(!has(term, ""), "{term}");
    }
    assert!(!has("", "status.phase=Pending"));
}

fn changed(old: &Value, path: &str, value: Value) -> Result<Value, Refusal> {
    let mut new = old.clone();
    *new.pointer_mut(path).unwrap() = value;
    admit(old, &mut new).map(|()| new)
}

#[test]
fn a_job_keeps_its_template_and_may_have_another_size_if_both_numbers_agree() {
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
    let mut smaller = job.clone();
    smaller["spec"]["completions"] = json!(2);
    smaller["spec"]["parallelism"] = json!(2);
    admit(&job, &mut smaller).unwrap();
    assert_eq!(smaller["metadata"]["generation"], 2);
    let with_label = changed(&job, "/metadata", json!({ "uid": "another", "generation": 9 }));
    assert_eq!(with_label.unwrap()["metadata"], json!({ "generation": 1 }));
}

#[test]
fn a_service_keeps_its_address() {
    let mut service =
        json!({ "kind": "Service", "metadata": {}, "spec": { "ports": [{ "port": 1 }] } });
    fill_in(&mut service, || "10.96.0.7".to_owned());
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 1);
    let other = changed(&service, "/spec/clusterIP", json!("10.96.0.8"));
    assert_eq!(other.unwrap_err().code, 422);
}

const MAPS: &str = "/api/v1/namespaces/work/configmaps";

fn map(store: &mut Store) -> (String, Arc<Value>) {
    let body = json!({ "kind": "ConfigMap", "metadata": { "name": "a" } });
    (format!("{MAPS}/a"), store.create(MAPS, &body).unwrap())
}

#[test]
fn a_name_is_given_once_and_a_write_meets_the_version_that_it_names() {
    let mut store = Store::default();
    let (path, made) = map(&mut store);
    assert_eq!(store.create(MAPS, &made).unwrap_err().code, 409);
    let version = &made["metadata"]["resourceVersion"];
    let naming =
        |field: &str, value: &Value| json!({ "metadata": { field: value }, "data": { "b": "c" } });
    assert_eq!(store.merge(&path, &naming("uid", &json!("other"))).unwrap_err().code, 409);
    store.merge(&path, &naming("resourceVersion", version)).unwrap();
    let same = store.merge(&path, &json!({ "data": { "b": "c" } })).unwrap();
    assert_eq!(store.merge(&path, &json!({})).unwrap(), same, "nothing changes");
    assert_eq!(store.merge(&path, &naming("resourceVersion", version)).unwrap_err().code, 409);
    assert_eq!(store.merge("/nowhere", &json!({})).unwrap_err().code, 404);
}

#[test]
fn what_is_waited_for_goes_when_nobody_waits_any_more() {
    let mut store = Store::default();
    let (path, made) = map(&mut store);
    let other = json!({ "preconditions": { "uid": "other" } });
    assert_eq!(store.delete(&path, &other).unwrap_err().code, 409);
    let options = json!({
        "propagationPolicy": "Foreground", "preconditions": { "uid": made["metadata"]["uid"] },
    });
    store.delete(&path, &options).unwrap();
    assert!(!store.get(&path).unwrap()["metadata"]["deletionTimestamp"].is_null());
    store.merge(&path, &json!({ "metadata": { "finalizers": null } })).unwrap();
    assert!(store.get(&path).is_none());
}

const JOBS: &str = "/apis/batch/v1/namespaces/work/jobs";

/// A cluster with the Job of a MiniCluster of two, whose command runs once, and with `labels` on the Job.
fn cluster_with_job(labels: &Value) -> (Store, JobController, Kubelet) {
    let (_, desired) = crate::support::built(&crate::support::cluster(&crate::support::hello(
        &json!({ "size": 2 }),
    )));
    let mut job = serde_json::to_value(desired.job).unwrap();
    (job["kind"], job["metadata"]["namespace"]) = (json!("Job"), json!("work"));
    merge(&mut job["metadata"]["labels"], labels);
    let mut store = Store::default();
    store.has_queue = true;
    let mut config = serde_json::to_value(desired.config_map).unwrap();
    (config["kind"], config["metadata"]["namespace"]) = (json!("ConfigMap"), json!("work"));
    store.create(MAPS, &config).unwrap();
    let name = "/api/v1/namespaces/work/secrets";
    let volumes = job["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
    let secret = volumes.iter().find_map(|volume| volume["secret"]["secretName"].as_str()).unwrap();
    store.create(name, &json!({ "kind": "Secret", "metadata": { "name": secret } })).unwrap();
    store.create(JOBS, &job).unwrap();
    (store, JobController::default(), Kubelet::default())
}

/// Lets both do so many things.
fn act((store, jobs, kubelet): &mut (Store, JobController, Kubelet), times: usize) {
    for _ in 0..times {
        jobs.sync(store);
        kubelet.step(store, PODS);
    }
}

fn suspend(store: &mut Store, suspend: bool) {
    store.merge(JOB, &json!({ "spec": { "suspend": suspend } })).unwrap();
}

#[test]
fn a_suspension_takes_the_pods_and_counts_them_nowhere() {
    let mut cluster = cluster_with_job(&json!({}));
    act(&mut cluster, 5);
    assert_eq!(cluster.2.runs.len(), 1, "the command runs");
    suspend(&mut cluster.0, true);
    cluster.1.sync(&mut cluster.0);
    let pods = pods_of(&cluster.0, JOB, "job-uid");
    assert_eq!(pods.len(), 2, "they have time to end");
    assert!(pods.iter().all(|(_, pod)| pod["metadata"].get("finalizers").is_none()));
    cluster.2.step(&mut cluster.0, PODS);
    let ended = pods_of(&cluster.0, JOB, "job-uid");
    let code = &ended[0].1["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"];
    assert_eq!(*code, 75, "who looks now sees how they ended");
    act(&mut cluster, 3);
    assert!(pods_of(&cluster.0, JOB, "job-uid").is_empty());
    let status = &cluster.0.get(JOB).unwrap()["status"];
    assert_eq!((&status["active"], &status["failed"]), (&json!(0), &json!(0)));
    assert_eq!(status["conditions"][0]["type"], "Suspended");
    assert!(status.get("startTime").is_none());
    suspend(&mut cluster.0, false);
    act(&mut cluster, 5);
    assert_eq!(cluster.2.runs.len(), 2, "the command begins again");
    let status = &cluster.0.get(JOB).unwrap()["status"];
    assert_eq!(status["conditions"][0]["status"], "False");
    assert!(status["startTime"].is_string());
}

#[test]
fn a_pod_that_was_deleted_before_a_suspension_counts() {
    let mut cluster = cluster_with_job(&json!({}));
    act(&mut cluster, 5);
    let (lead, _) = pods_of(&cluster.0, JOB, "job-uid").remove(0);
    cluster.0.delete(&lead, &Value::Null).unwrap();
    suspend(&mut cluster.0, true);
    act(&mut cluster, 4);
    assert!(cluster.1.taken.len() == 1, "the worker");
    assert_eq!(cluster.0.get(JOB).unwrap()["status"]["failed"], 1);
}

#[test]
fn a_queue_suspends_what_names_it_until_its_turn_and_after_it() {
    let mut cluster = cluster_with_job(&json!({ "kueue.x-k8s.io/queue-name": "team" }));
    let suspended = |store: &Store| is_suspended(store.get(JOB).unwrap());
    assert!(suspended(&cluster.0), "from its creation on");
    act(&mut cluster, 3);
    assert!(pods_of(&cluster.0, JOB, "job-uid").is_empty());
    assert!(cluster.0.get(JOB).unwrap()["status"].get("startTime").is_none());
    let flavour = |store: &Store| {
        let nodes = store.get(JOB).unwrap().pointer("/spec/template/spec/nodeSelector");
        nodes.map(|nodes| nodes["flavour"].clone())
    };
    queue::direct(&mut cluster.0, true);
    assert!(!suspended(&cluster.0));
    act(&mut cluster, 5);
    assert_eq!(pods_of(&cluster.0, JOB, "job-uid").len(), 2);
    assert_eq!(flavour(&cluster.0), Some("on-demand".into()));
    queue::direct(&mut cluster.0, false);
    assert!(suspended(&cluster.0));
    assert!(cluster.0.get(JOB).unwrap()["status"].get("startTime").is_none());
    assert!(flavour(&cluster.0).is_some(), "the template of a Job that has pods stays as it is");
    queue::direct(&mut cluster.0, true);
    assert!(suspended(&cluster.0), "it has not stopped yet");
    act(&mut cluster, 5);
    queue::direct(&mut cluster.0, false);
    assert_eq!(flavour(&cluster.0), None);
}

#[test]
fn others_are_not_the_queues() {
    let mut cluster = cluster_with_job(&json!({}));
    queue::direct(&mut cluster.0, false);
    assert!(!is_suspended(cluster.0.get(JOB).unwrap()));
}

#[test]
fn a_lost_node_keeps_its_pods_until_it_is_given_up_and_a_cut_off_command_is_one() {
    let mut cluster = cluster_with_job(&json!({}));
    act(&mut cluster, 5);
    cluster.2.nodes.lose(0, &cluster.0);
    let (lead, _) = pods_of(&cluster.0, JOB, "job-uid").remove(0);
    cluster.0.delete(&lead, &Value::Null).unwrap();
    act(&mut cluster, 3);
    assert!(cluster.0.get(&lead).is_some(), "nobody says that it has ended");
    let mut other = cluster_with_job(&json!({}));
    act(&mut other, 5);
    other.2.nodes.lose(0, &other.0);
    Kubelet::set_unready(&mut other.0, &lead);
    assert!(other.2.nodes.find(0));
    act(&mut other, 3);
    assert_eq!(other.2.runs.len(), 1, "it still ran");
    cluster.2.nodes.give_up(0, &mut cluster.0, PODS);
    let status = &cluster.0.get(&lead).unwrap()["status"];
    assert_eq!(
        (&status["phase"], &status["conditions"][2]["reason"]),
        (&json!("Failed"), &json!("DeletionByPodGC"))
    );
    act(&mut cluster, 1);
    assert!(cluster.0.get(&lead).is_none(), "it was counted");
}
