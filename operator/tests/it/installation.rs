//! What `deploy/` installs. That it is what the chart says is checked by `cargo verify`, which has helm; that its Roles
//! cover every request of the operator by the API server of the other tests (`support/rights.rs`).

use clap::CommandFactory as _;
use flux_operator::cli::Cli;
use flux_operator::images::{AGENT_IMAGE, OPERATOR_IMAGE, VIEW_IMAGE};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, PodSpec, Service},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::{ClusterRole, PolicyRule, Role},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

const EVERYWHERE: &str = "operator.yaml";
const ONE_NAMESPACE: &str = "one-namespace/operator.yaml";

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

fn objects(file: &str) -> Vec<Value> {
    let text = read_to_string(deploy().join(file)).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

/// The object of this type and name in `file`.
fn object<K: k8s_openapi::Resource + DeserializeOwned>(file: &str, name: &str) -> K {
    let mut objects = objects(file).into_iter();
    let found = objects.find(|it| it["kind"] == K::KIND && it["metadata"]["name"] == name);
    serde_json::from_value(found.unwrap()).unwrap()
}

fn deployment(file: &str) -> Deployment {
    object(file, "flux-operator")
}

fn pod(file: &str) -> PodSpec {
    deployment(file).spec.template.spec.unwrap()
}

fn container(file: &str) -> Container {
    pod(file).containers.remove(0)
}

fn resources(rule: &PolicyRule) -> Vec<String> {
    rule.resources.clone().unwrap()
}

fn rules_everywhere() -> Vec<PolicyRule> {
    object::<ClusterRole>(EVERYWHERE, "flux-operator").rules.unwrap()
}

fn rules_of_role(name: &str) -> Vec<PolicyRule> {
    object::<Role>(ONE_NAMESPACE, name).rules.unwrap()
}

#[test]
fn the_chart_has_the_version_of_the_operator() {
    let chart = read_to_string(deploy().join("chart/Chart.yaml")).unwrap();
    let chart: Value = serde_saphyr::from_str(&chart).unwrap();
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
}

/// The variables and defaults of the flags of `flux-operator run`.
fn flags() -> BTreeMap<String, String> {
    let cli = Cli::command();
    let run = cli.find_subcommand("run").unwrap();
    let text = |value: &std::ffi::OsStr| value.to_str().unwrap().to_owned();
    let flags = run.get_arguments().filter_map(|flag| Some((flag.get_env()?, flag)));
    let default = |flag: &clap::Arg| flag.get_default_values().iter().map(|it| text(it)).collect();
    flags.map(|(variable, flag)| (text(variable), default(flag))).collect()
}

#[test]
fn an_installed_operator_has_the_images_and_settings_of_one_without_flags() {
    let installed = container(EVERYWHERE);
    assert_eq!(installed.image.as_deref(), Some(OPERATOR_IMAGE));
    assert_eq!(installed.args.unwrap(), ["run", "--leader-elect=true"]);
    let flags = flags();
    for variable in installed.env.unwrap() {
        assert_eq!(variable.value, flags.get(&variable.name).cloned(), "{}", variable.name);
    }
    let defaults: Vec<_> = ["AGENT_IMAGE", "VIEW_IMAGE"]
        .map(|name| flags[&format!("FLUX_OPERATOR_{name}")].as_str())
        .into();
    assert_eq!(defaults, [AGENT_IMAGE, VIEW_IMAGE]);
}

#[test]
fn the_chart_sets_every_flag_that_does_not_belong_to_the_deployment_itself() {
    let template = read_to_string(deploy().join("chart/templates/deployment.yaml")).unwrap();
    let own = [
        "HOSTNAME",
        "LEADER_ELECT",
        "LEASE_NAME",
        "LEASE_NAMESPACE",
        "METRICS_BIND",
        "HEALTH_BIND",
    ];
    for variable in flags().into_keys() {
        let is_own = own.iter().any(|name| variable.trim_start_matches("FLUX_OPERATOR_") == *name);
        let is_set = template.contains(&format!("- name: {variable}\n"));
        assert!(is_own != is_set, "{variable}");
    }
}

#[test]
fn an_operator_for_one_namespace_comes_with_nothing_outside_it_and_follows_it() {
    for object in objects(ONE_NAMESPACE) {
        let kind = object["kind"].as_str().unwrap();
        assert!(!kind.starts_with("Cluster") && kind != "Namespace", "{object}");
        assert_eq!(object["metadata"]["namespace"], "flux-operator-system", "{object}");
    }
    let variables = container(ONE_NAMESPACE).env.unwrap();
    let watched = variables.into_iter().find(|it| it.name == "FLUX_OPERATOR_NAMESPACE").unwrap();
    assert_eq!(watched.value_from.unwrap().field_ref.unwrap().field_path, "metadata.namespace");
}

#[test]
fn an_operator_for_one_namespace_may_do_there_what_the_other_may_do_everywhere() {
    let mut everywhere = rules_everywhere();
    // Nodes are in no namespace.
    everywhere.retain(|rule| resources(rule) != ["nodes"]);
    assert_eq!(rules_of_role("flux-operator"), everywhere);
    let leader = rules_of_role("flux-operator-leader");
    assert_eq!(leader.iter().flat_map(resources).collect::<Vec<_>>(), ["leases"]);
}

#[test]
fn the_operator_may_not_read_secrets_nor_touch_what_is_not_its_own() {
    for rule in &rules_everywhere() {
        let resources = resources(rule);
        assert!(!rule.verbs.iter().any(|verb| verb == "*"), "{resources:?}");
        assert!(!resources.iter().any(|resource| resource == "*" || resource == "pods/exec"));
        if resources.contains(&"secrets".to_owned()) {
            assert_eq!(rule.verbs, ["create"]);
        }
        if rule.verbs.contains(&"delete".to_owned()) {
            assert!(
                ["miniclusters", "pods", "services"].contains(&resources[0].as_str()),
                "{resources:?}"
            );
        }
    }
}

#[test]
fn the_deployment_is_one_that_pod_security_restricted_admits() {
    let template = pod(EVERYWHERE);
    let security = template.security_context.unwrap();
    assert_eq!(security.run_as_non_root, Some(true));
    assert_eq!(security.seccomp_profile.unwrap().type_, "RuntimeDefault");
    for container in template.containers {
        let context = container.security_context.unwrap();
        assert_eq!(context.allow_privilege_escalation, Some(false));
        assert_eq!(context.read_only_root_filesystem, Some(true));
        assert_eq!(context.capabilities.unwrap().drop.unwrap(), ["ALL"]);
        assert!(container.resources.unwrap().limits.unwrap().contains_key("memory"));
        assert!(container.liveness_probe.is_some() && container.readiness_probe.is_some());
    }
    let namespace = &objects(EVERYWHERE)[0];
    assert_eq!(namespace["kind"], "Namespace");
    let level = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
    assert_eq!(level, "restricted");
}

#[test]
fn selectors_fit_the_pods_and_the_monitor_finds_the_metrics() {
    let deployment = deployment(EVERYWHERE).spec;
    let labels = deployment.template.metadata.unwrap().labels.unwrap();
    assert_eq!(deployment.selector.match_labels.as_ref(), Some(&labels));
    let component = |name: &str| format!("components/{name}/{name}.yaml");
    let budget: PodDisruptionBudget = object(&component("pod-disruption-budget"), "flux-operator");
    assert_eq!(budget.spec.unwrap().selector.unwrap().match_labels.as_ref(), Some(&labels));
    let policy: NetworkPolicy = object(&component("network-policy"), "flux-operator");
    let pods = policy.spec.unwrap().pod_selector.unwrap();
    assert_eq!(pods.match_labels.as_ref(), Some(&labels));
    let service: Service = object(EVERYWHERE, "flux-operator-metrics");
    let monitor = &objects(&component("service-monitor"))[0]["spec"];
    assert_eq!(
        serde_json::to_value(service.metadata.labels).unwrap(),
        monitor["selector"]["matchLabels"]
    );
    let service = service.spec.unwrap();
    assert_eq!(service.selector.as_ref(), Some(&labels));
    assert_eq!(service.ports.unwrap()[0].name.as_deref(), monitor["endpoints"][0]["port"].as_str());
}

#[test]
fn every_file_of_a_kustomization_is_there_and_the_definition_is_not_deleted_with_the_operator() {
    let directories = ["", "one-namespace"].map(PathBuf::from).into_iter();
    let components = ["network-policy", "pod-disruption-budget", "service-monitor"];
    let components = components.map(|name| Path::new("components").join(name));
    for directory in directories.chain(components).map(|it| deploy().join(it)) {
        let text = read_to_string(directory.join("kustomization.yaml")).unwrap();
        let kustomization: Value = serde_saphyr::from_str(&text).unwrap();
        for file in kustomization["resources"].as_array().unwrap() {
            assert!(directory.join(file.as_str().unwrap()).is_file(), "{file}");
            assert_ne!(file, "crd.yaml");
        }
    }
}
