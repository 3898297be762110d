//! The bugs of the operator in Go that a specification or the built objects show, by their numbers
//! in `go_differences.txt`. Each test would fail on what that operator does.

use crate::support::{built, cluster, config, defaults, documents, faults, hello, pod_spec};
use flux_contract::{Bootstrap, Workload};
use flux_operator::offline::Checker;
use k8s_openapi::api::batch::v1::PodFailurePolicyRule;
use serde_json::{Value, json};
use std::path::Path;

/// The smallest MiniCluster whose only container has the fields of `container`.
fn with(container: &Value) -> Value {
    let mut fields = json!({ "image": "app", "command": "echo hello" });
    fields.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    json!({ "containers": [fields] })
}

fn command(text: &str) -> Vec<String> {
    let work = cluster(&hello(&with(&json!({ "command": text })))).runner.workload;
    let Workload::Submit { submission } = work else {
        panic!("{text} is not submitted but {work:?}")
    };
    submission.command
}

fn hosts(spec: &Value) -> String {
    cluster(&hello(spec)).flux.hosts.to_string()
}

#[test]
fn bug_01_a_bursted_cluster_is_given_port_and_hosts_of_its_lead() {
    let lead = json!({ "address": "203.0.113.7", "name": "root", "size": 2, "port": 30093 });
    let bursting = json!({ "leadBroker": lead, "clusters": [{ "name": "hello", "size": 4 }] });
    let config = config(&json!({ "flux": { "bursting": bursting } }));
    let Bootstrap::Child { lead, lead_port, hosts } = config.network.bootstrap else {
        panic!("not a child: {:?}", config.network);
    };
    assert_eq!((lead.as_str(), lead_port), ("203.0.113.7", 30093));
    assert_eq!(hosts.to_string(), "root-[0-1],hello-[0-3]");
}

#[test]
fn bug_02_a_command_with_quotes_inside_is_run_with_its_arguments_whole() {
    assert_eq!(command("bash -c \"echo 'a  b'\""), ["bash", "-c", "echo 'a  b'"]);
    assert_eq!(command("echo \"a b\" c"), ["echo", "a b", "c"]);
}

#[test]
fn bug_02_variables_are_expanded_where_the_command_runs() {
    for text in ["echo $HOME", "echo `hostname`"] {
        assert_eq!(command(text), ["sh", "-c", text]);
    }
    assert_eq!(command("echo '$HOME'"), ["echo", "$HOME"]);
}

#[test]
fn bug_03_a_size_limit_that_is_none_is_refused_by_its_place() {
    let volume = json!({ "data": { "emptyDir": true, "emptyDirSizeLimit": "much" } });
    let said = faults(&with(&json!({ "volumes": volume }))).concat();
    assert!(
        said.contains("spec.containers[0].volumes.data.emptyDirSizeLimit: not a quantity"),
        "{said}"
    );
}

#[test]
fn bug_04_another_mount_path_reaches_every_object() {
    let spec = json!({ "flux": { "container": { "mountPath": "/opt/flux" } } });
    for document in documents(&cluster(&hello(&spec))) {
        assert!(!document.to_string().contains("/mnt/flux"), "{document}");
    }
    assert!(config(&spec).layout.local_uri().contains("/opt/flux/"));
}

#[test]
fn bug_05_clusters_without_name_and_size_get_both() {
    let spec = json!({ "size": 2, "flux": { "bursting": { "clusters": [{}, {}] } } });
    assert_eq!(hosts(&spec), "hello-[0-1],burst-0-[0-1],burst-1-[0-1]");
}

#[test]
fn bug_05_a_lead_broker_of_size_1_is_one_host() {
    let lead = json!({ "address": "203.0.113.7", "name": "root", "size": 1 });
    let bursting = json!({ "leadBroker": lead, "clusters": [{ "name": "hello", "size": 4 }] });
    assert_eq!(hosts(&json!({ "flux": { "bursting": bursting } })), "root-0,hello-[0-3]");
}

#[test]
fn bug_07_a_size_of_zero_is_refused_and_not_passed_over() {
    assert!(faults(&json!({ "size": 0 })).concat().contains("spec.size: 0 is out of range"));
    assert!(faults(&json!({ "size": 5, "maxSize": 4 })).concat().contains("spec.maxSize"));
}

fn services(spec: &Value) -> Vec<Value> {
    let all = documents(&cluster(&hello(spec)));
    all.into_iter().filter(|document| document["kind"] == "Service").collect()
}

#[test]
fn bug_09_every_port_of_a_service_with_several_has_a_name_of_its_own() {
    let runner = json!({ "image": "app", "command": "a", "runFlux": true });
    let web = json!({ "image": "web", "name": "web", "runFlux": false, "ports": [80, 443] });
    let services = services(&json!({ "containers": [runner, web] }));
    let of_web = services.iter().filter(|it| it["spec"]["ports"].as_array().unwrap().len() == 2);
    let mut seen = 0;
    for service in of_web {
        let ports = &service["spec"]["ports"];
        assert!(ports[0]["name"].is_string() && ports[0]["name"] != ports[1]["name"], "{ports}");
        seen += 1;
    }
    assert!(seen > 0, "{services:#?}");
}

#[test]
fn bug_09a_ports_of_the_only_container_make_no_service_without_a_name() {
    let services = services(&with(&json!({ "ports": [8080] })));
    let names: Vec<_> = services.iter().map(|it| it["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["hello", "hello-lead"]);
}

#[test]
fn bug_10_a_config_map_is_mounted_under_any_name() {
    let volume = json!({ "inputs": { "configMapName": "simulation", "path": "/inputs" } });
    let spec = pod_spec(&with(&json!({ "volumes": volume })));
    let of_user = |name: &str| name == "inputs" || name == "simulation";
    let mounts = spec.containers[0].volume_mounts.clone().unwrap();
    let mount = mounts.into_iter().find(|mount| mount.mount_path == "/inputs").unwrap();
    let volumes = spec.volumes.unwrap();
    let volume = volumes.into_iter().find(|volume| of_user(&volume.name)).unwrap();
    assert_eq!(mount.name, volume.name);
    assert_eq!(volume.config_map.unwrap().name, "simulation");
}

#[test]
fn bug_12_a_given_certificate_is_in_the_secret_and_in_no_other_object() {
    let key = "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs";
    let text = format!(
        "metadata\n    name = \"test\"\ncurve\n    public-key = \"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{{hID\"\n    secret-key = \"{key}\"\n"
    );
    let cluster = cluster(&hello(&json!({ "flux": { "curveCert": text } })));
    for document in documents(&cluster) {
        assert!(!document.to_string().contains(key), "{}", document["kind"]);
    }
    assert!(!format!("{cluster:?}").contains(key));
}

#[test]
fn bug_13_pod_resources_need_no_runtime_class() {
    let spec = pod_spec(&json!({ "pod": { "resources": { "cpu": "2" } } }));
    assert!(spec.overhead.is_none(), "{:?}", spec.overhead);
    assert_eq!(spec.resources.unwrap().requests.unwrap()["cpu"].0, "2");
}

#[test]
fn bug_14_the_whole_security_context_of_the_pod_arrives() {
    let context = json!({
        "fsGroup": 5, "runAsUser": 6, "runAsGroup": 7, "runAsNonRoot": true,
        "supplementalGroups": [8], "seccompProfile": { "type": "RuntimeDefault" },
    });
    let spec = pod_spec(&json!({ "pod": { "securityContext": context } }));
    assert_eq!(serde_json::to_value(spec.security_context).unwrap(), context);
}

#[test]
fn bug_15_the_pull_secrets_of_view_and_services_are_used() {
    let view = json!({ "imagePullSecret": "of-view" });
    let service = json!({ "image": "db", "name": "db", "imagePullSecret": "of-service" });
    let spec = json!({ "flux": { "container": view }, "services": [service] });
    assert_eq!(pod_spec(&spec).image_pull_secrets.unwrap()[0].name, "of-view");
    let (_, desired) = built(&cluster(&hello(&spec)));
    let services = desired.services_pod.unwrap().spec.unwrap();
    assert_eq!(services.image_pull_secrets.unwrap()[0].name, "of-service");
}

#[test]
fn bug_17_only_the_leads_success_completes_the_job_and_a_failure_is_not_repeated() {
    let (_, desired) = built(&cluster(&hello(&json!({}))));
    let spec = desired.job.spec.unwrap();
    let rule = spec.success_policy.unwrap().rules.remove(0);
    assert_eq!(rule.succeeded_indexes.as_deref(), Some("0"));
    let rules = spec.pod_failure_policy.unwrap().rules;
    let of_command = |rule: &&PodFailurePolicyRule| {
        let codes = rule.on_exit_codes.as_ref();
        codes.is_some_and(|it| {
            it.container_name.as_deref() == Some("hello") && it.operator == "NotIn"
        })
    };
    assert_eq!(rules.iter().find(of_command).unwrap().action, "FailJob");
    assert_eq!(spec.template.spec.unwrap().restart_policy.as_deref(), Some("Never"));
}

#[test]
fn bug_22_a_file_is_checked_offline_with_the_same_rules_and_defaults() {
    let checker = Checker::new(defaults());
    let check = |text: &str| checker.findings(Path::new("file.yaml"), text).faults;
    let head = "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata: {name: a}\n";
    assert_eq!(check(&format!("{head}spec: {{containers: [{{command: hostname}}]}}")), []);
    let wrong = format!("{head}spec: {{size: -1, maxSize: -2, containers: [{{}}, {{}}]}}");
    let said: Vec<String> = check(&wrong).iter().map(ToString::to_string).collect();
    assert!(said.len() > 2 && said.iter().any(|fault| fault.contains("spec.size")), "{said:?}");
    let twice = check(&format!("{head}spec:\n  size: 1\n  size: 2\n"))[0].to_string();
    assert!(twice.contains("line 6") && twice.contains("duplicate mapping key: size"), "{twice}");
    assert!(!twice.contains("Options"), "nothing that only a programmer could do: {twice}");
}

#[test]
fn bug_23_names_are_published_at_once_and_readiness_is_the_brokers() {
    let (services, desired) = built(&cluster(&hello(&json!({}))));
    for service in [services.headless, services.lead] {
        assert_eq!(service.spec.unwrap().publish_not_ready_addresses, Some(true));
    }
    let pod = desired.job.spec.unwrap().template.spec.unwrap();
    let probe = pod.containers[0].readiness_probe.clone().unwrap().http_get.unwrap();
    assert_eq!(probe.path.as_deref(), Some("/ready?wait=20"));
}

#[test]
fn a_script_that_names_no_interpreter_is_run_by_bash_as_it_always_was() {
    let script = json!({ "command": null, "commands": { "script": "[[ 1 == 1 ]] && hostname" } });
    let work = cluster(&hello(&with(&script))).runner.workload;
    let Workload::Submit { submission } = work else { panic!("not submitted: {work:?}") };
    assert_eq!(submission.command, ["bash", "/tmp/custom-entrypoint.sh"]);
}
