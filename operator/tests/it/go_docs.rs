//! Where the user's document and the operator in Go disagree, by the numbers in
//! `go_differences.txt`: what is decided, each in a test that the other choice would fail.

use crate::support::{built, cluster, defaults, documents, hello, pod_spec};
use flux_contract::{Redacted, Workload};
use flux_operator::cluster::Cluster;
use flux_operator::controller::build::secret;
use flux_operator::offline::Checker;
use serde_json::{Value, json};
use std::path::Path;

fn of(spec: &Value) -> Cluster {
    cluster(&hello(spec))
}

/// The only container with the fields of `container`.
fn with(container: &Value) -> Cluster {
    let mut fields = json!({ "image": "app", "command": "echo hello" });
    fields.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    of(&json!({ "containers": [fields] }))
}

fn flags(spec: &Value) -> Vec<String> {
    let work = of(spec).runner.workload;
    let Workload::Submit { submission } = work else { panic!("not submitted: {work:?}") };
    submission.flags
}

fn offline_faults(spec: &Value) -> Vec<String> {
    let object = json!({
        "apiVersion": "flux-framework.org/v1alpha2", "kind": "MiniCluster",
        "metadata": { "name": "hello" }, "spec": spec,
    });
    let text = object.to_string();
    let found = Checker::new(defaults()).findings(Path::new("file.yaml"), &text);
    found.faults.into_iter().map(|fault| fault.message).collect()
}

#[test]
fn doc_01_two_clusters_of_a_namespace_have_services_of_their_own() {
    assert_eq!(of(&json!({})).headless_name, "hello");
    let given = of(&json!({ "network": { "headlessName": "flux-service" } }));
    assert_eq!(given.headless_name, "flux-service");
}

#[test]
fn doc_02_failures_of_hooks_are_taken_strictly_unless_it_is_switched_off() {
    assert!(of(&json!({})).logging.strict && of(&json!({ "logging": {} })).logging.strict);
    assert!(!of(&json!({ "logging": { "strict": false } })).logging.strict);
}

#[test]
fn doc_03_a_container_runs_flux_unless_it_says_otherwise() {
    let web = json!({ "image": "web", "name": "web", "runFlux": false });
    let two = of(&json!({ "containers": [{ "image": "app", "command": "a" }, web] }));
    assert_eq!(two.runner.container.image.as_deref(), Some("app"));
    assert_eq!(two.sidecars[0].container.name, "web");
}

#[test]
fn doc_04_launcher_is_understood_at_both_places() {
    for cluster in [of(&json!({ "launcher": true })), with(&json!({ "launcher": true }))] {
        assert!(
            matches!(cluster.runner.workload, Workload::Launcher { .. }),
            "{:?}",
            cluster.runner.workload
        );
    }
}

#[test]
fn doc_05_the_lead_broker_is_understood_at_both_places_and_a_hostlist_makes_its_size_needless() {
    let hostlist = "root-[0-1],hello-[0-3]";
    let lead = json!({ "address": "203.0.113.7", "hostlist": hostlist });
    let beside = json!({ "leadBroker": { "address": "203.0.113.7" }, "hostlist": hostlist });
    for flux in [json!({ "leadBroker": lead }), json!({ "bursting": beside })] {
        let flux = of(&json!({ "flux": flux })).flux;
        assert_eq!(flux.hosts.to_string(), hostlist);
        assert_eq!(flux.lead_broker.unwrap().port, 8050);
    }
}

#[test]
fn doc_06_the_documents_fields_of_a_container_exist_and_are_acted_on() {
    let cluster = with(&json!({
        "cores": 3, "preCommand": "first", "fluxuser": { "uid": 77, "name": "someone" },
        "commands": { "runFluxAsRoot": true },
    }));
    assert_eq!(cluster.not_acted_on, Vec::<String>::new());
    assert!(
        cluster
            .runner
            .container
            .env
            .unwrap()
            .iter()
            .any(|it| it.name == "FLUX_CORES" && it.value.as_deref() == Some("3"))
    );
    assert_eq!(cluster.runner.hooks.pre_command.as_deref(), Some("first"));
    let user = &cluster.runner.user;
    assert_eq!((user.name.as_str(), user.uid, user.run_as_root), ("someone", 77, true));
    assert_eq!(with(&json!({})).runner.user.name, "flux");
    let diagnostics = with(&json!({ "diagnostics": true, "command": null }));
    assert!(matches!(diagnostics.runner.workload, Workload::Diagnostics {}));
}

#[test]
fn doc_07_both_spellings_of_the_hooks_of_lead_and_workers_are_understood() {
    let document = with(&json!({ "commands": { "preBroker": "lead", "preWorker": "worker" } }));
    let code = with(&json!({ "commands": { "brokerPre": "lead", "workerPre": "worker" } }));
    assert_eq!(document.runner.hooks, code.runner.hooks);
    assert_eq!(code.runner.hooks.broker_pre.as_deref(), Some("lead"));
}

#[test]
fn doc_08_misspelled_keys_are_named() {
    let container = json!([{ "image": "app", "command": "a" }]);
    let spec = json!({
        "deadline": 5, "flux": { "connextTimeout": "5s" }, "containers": container,
    });
    let faults = offline_faults(&spec);
    assert!(faults.iter().any(|fault| fault.starts_with("spec.deadline: no such field")));
    assert!(faults.iter().any(|fault| fault.starts_with("spec.flux.connextTimeout: no such")));
    assert_eq!(of(&json!({ "deadlineSeconds": 5 })).deadline_seconds, 5);
}

#[test]
fn doc_09_as_many_tasks_as_pods_are_spread_over_all_pods() {
    assert_eq!(flags(&json!({ "size": 4, "tasks": 4 })), ["-N", "4", "-n4"]);
    assert_eq!(flags(&json!({ "size": 4, "tasks": 3 })), ["-n3"]);
}

#[test]
fn doc_10_tasks_are_those_of_the_whole_command() {
    assert_eq!(flags(&json!({ "size": 4, "tasks": 8 })), ["-N", "4", "-n8"]);
}

#[test]
fn doc_11_a_maximum_equal_to_the_size_is_fine() {
    assert_eq!(of(&json!({ "size": 4, "maxSize": 4 })).max_size, 4);
}

#[test]
fn doc_12_the_architecture_chooses_nodes_and_view() {
    let spec = pod_spec(&json!({ "flux": { "arch": "arm" } }));
    assert_eq!(spec.node_selector.unwrap()["kubernetes.io/arch"], "arm64");
    let images: Vec<_> = spec.init_containers.unwrap().into_iter().map(|it| it.image).collect();
    assert!(images.contains(&Some(defaults().arm_view_image)), "{images:?}");
}

#[test]
fn doc_16_pod_resources_are_an_overhead_where_a_runtime_class_asks_for_one() {
    let pod = json!({ "resources": { "cpu": "250m" }, "runtimeClassName": "kata" });
    let spec = pod_spec(&json!({ "pod": pod }));
    assert_eq!(spec.overhead.unwrap()["cpu"].0, "250m");
    assert!(spec.resources.is_none());
}

#[test]
fn doc_17_volumes_are_used_and_never_made() {
    let volumes = json!({
        "a": { "path": "/a", "hostPath": "/mnt/a" }, "b": { "path": "/b", "claimName": "b" },
        "c": { "path": "/c" },
    });
    let container = json!([{ "image": "app", "command": "a", "volumes": volumes }]);
    let cluster = of(&json!({ "containers": container }));
    for document in documents(&cluster) {
        let kind = document["kind"].as_str().unwrap();
        assert!(!kind.starts_with("PersistentVolume"), "{kind}");
    }
    let empty =
        cluster.pod.spec.volumes.iter().flatten().find(|volume| volume.name == "c").unwrap();
    assert!(empty.empty_dir.is_some(), "a volume with a path only is an empty directory");
}

#[test]
fn doc_18_the_operators_labels_win_over_the_users() {
    let keys = [
        "namespace",
        "app",
        "app.kubernetes.io/name",
        "app.kubernetes.io/managed-by",
        "hpa-selector",
        "job-index",
    ];
    let mut labels: serde_json::Map<String, Value> =
        keys.iter().map(|key| ((*key).to_owned(), json!("mine"))).collect();
    labels.insert("team".to_owned(), json!("physics"));
    let job = built(&of(&json!({ "pod": { "labels": labels } }))).1.job.spec.unwrap();
    let labels = job.template.metadata.unwrap().labels.unwrap();
    let values: Vec<_> = keys.iter().map(|key| labels.get(*key).map(String::as_str)).collect();
    let operator = flux_contract::labels::APP_VALUE;
    let hello = Some("hello");
    // The last is another one on each pod, and given to it when it is there.
    assert_eq!(values, [Some("work"), Some(operator), hello, Some(operator), hello, None]);
    assert_eq!(labels["team"], "physics");
}

#[test]
fn doc_19_a_certificate_may_be_in_a_secret_of_the_user() {
    let spec = pod_spec(&json!({ "flux": { "curveCertSecret": "mine" } }));
    let secrets = spec.volumes.unwrap().into_iter().filter_map(|volume| volume.secret);
    let names: Vec<_> = secrets.filter_map(|secret| secret.secret_name).collect();
    assert_eq!(names, ["mine"]);
    let cluster = of(&json!({ "flux": { "curveCertSecret": "mine" } }));
    assert!(secret(&cluster, &Redacted::new(String::new())).is_none());
}
