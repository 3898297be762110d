//! Checks the files in `deploy/`. `cargo verify` checks with helm that they are those of the chart; the simulated API
//! server of the other tests checks that the Roles allow every request (`support/role.rs`); and a test on a cluster
//! installs them beside another operator, under Pod Security `restricted` (`e2e/tests/own_clusters/install.rs`).

use crate::prelude::*;
use clap::CommandFactory as _;
use flux_api::images::{AGENT_IMAGE, OPERATOR_IMAGE, VIEW_IMAGE};
use flux_operator::cli::Cli;
use k8s_openapi::api::rbac::v1::PolicyRule;
use std::fs::read_to_string;

const EVERYWHERE: &str = "operator.yaml";
const ONE_NAMESPACE: &str = "one-namespace/operator.yaml";
const CLUSTER_ROLE: &str = "flux-minicluster-operator";

fn objects(file: &str) -> Vec<Value> {
    let text = read_to_string(in_repository("deploy").join(file)).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

fn object(file: &str, kind: &str, name: &str) -> Value {
    let mut objects = objects(file).into_iter();
    objects.find(|it| it["kind"] == kind && it["metadata"]["name"] == name).unwrap()
}

fn deployment(file: &str) -> Value {
    object(file, "Deployment", "flux-operator")["spec"].clone()
}

fn variables(file: &str) -> Vec<Value> {
    let container = deployment(file)["template"]["spec"]["containers"][0].clone();
    container["env"].as_array().unwrap().clone()
}

fn rules(file: &str, kind: &str, name: &str) -> Vec<PolicyRule> {
    serde_json::from_value(object(file, kind, name)["rules"].clone()).unwrap()
}

fn resources(rule: &PolicyRule) -> Vec<String> {
    rule.resources.clone().unwrap()
}

#[test]
fn the_chart_has_the_version_of_the_operator() {
    let chart = read_to_string(in_repository("deploy/chart/Chart.yaml")).unwrap();
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
fn the_chart_installs_the_default_images_and_settings() {
    let installed = &deployment(EVERYWHERE)["template"]["spec"]["containers"][0];
    assert_eq!(installed["image"], OPERATOR_IMAGE);
    assert_eq!(installed["args"], json!(["run", "--leader-elect=true"]));
    let flags = flags();
    for variable in variables(EVERYWHERE) {
        let flag = flags.get(variable["name"].as_str().unwrap()).cloned();
        assert_eq!(variable["value"], json!(flag), "{variable}");
    }
    let defaults: Vec<_> = ["AGENT_IMAGE", "VIEW_IMAGE"]
        .map(|name| flags[&format!("FLUX_OPERATOR_{name}")].as_str())
        .into();
    assert_eq!(defaults, [AGENT_IMAGE, VIEW_IMAGE]);
}

#[test]
fn the_chart_sets_every_flag_of_a_user() {
    let template = read_to_string(in_repository("deploy/chart/templates/deployment.yaml")).unwrap();
    let own = ["HOSTNAME", "LEADER_ELECT", "LEASE_NAMESPACE", "METRICS_BIND", "HEALTH_BIND"];
    for variable in flags().into_keys() {
        let is_own = own.iter().any(|name| variable.trim_start_matches("FLUX_OPERATOR_") == *name);
        let is_set = template.contains(&format!("- name: {variable}\n"));
        assert!(is_own != is_set, "{variable}");
    }
}

#[test]
fn an_operator_for_one_namespace_stays_inside_it() {
    for object in objects(ONE_NAMESPACE) {
        let kind = object["kind"].as_str().unwrap();
        assert!(!kind.starts_with("Cluster") && kind != "Namespace", "{object}");
        assert_eq!(object["metadata"]["namespace"], "flux-operator-system", "{object}");
    }
    let mut variables = variables(ONE_NAMESPACE).into_iter();
    let watched = variables.find(|it| it["name"] == "FLUX_OPERATOR_NAMESPACE").unwrap();
    assert_eq!(watched["valueFrom"]["fieldRef"]["fieldPath"], "metadata.namespace");
}

#[test]
fn the_role_has_the_rules_of_the_cluster_role() {
    let mut everywhere = rules(EVERYWHERE, "ClusterRole", CLUSTER_ROLE);
    // Nodes are in no namespace.
    everywhere.retain(|rule| resources(rule) != ["nodes"]);
    assert_eq!(rules(ONE_NAMESPACE, "Role", "flux-operator"), everywhere);
    let leader = rules(ONE_NAMESPACE, "Role", "flux-operator-leader");
    assert_eq!(leader.iter().flat_map(resources).collect::<Vec<_>>(), ["leases"]);
}

#[test]
fn the_operator_cannot_read_secrets_or_delete_foreign_kinds() {
    for rule in &rules(EVERYWHERE, "ClusterRole", CLUSTER_ROLE) {
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
fn the_operator_is_restricted_limited_and_probed() {
    let pod = &deployment(EVERYWHERE)["template"]["spec"];
    for container in pod["containers"].as_array().unwrap() {
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        assert!(container["resources"]["limits"]["memory"].is_string());
        assert!(container["livenessProbe"].is_object() && container["readinessProbe"].is_object());
    }
    let namespace = &objects(EVERYWHERE)[0];
    assert_eq!(namespace["kind"], "Namespace");
    let level = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
    assert_eq!(level, "restricted");
}

#[test]
fn selectors_fit_the_pods_and_the_monitor_finds_the_metrics() {
    let component =
        |name: &str, kind| object(&format!("components/{name}/{name}.yaml"), kind, "flux-operator");
    let deployment = deployment(EVERYWHERE);
    let labels = &deployment["template"]["metadata"]["labels"];
    assert!(labels.is_object());
    assert_eq!(deployment["selector"]["matchLabels"], *labels);
    let budget = component("pod-disruption-budget", "PodDisruptionBudget");
    assert_eq!(budget["spec"]["selector"]["matchLabels"], *labels);
    let policy = component("network-policy", "NetworkPolicy");
    assert_eq!(policy["spec"]["podSelector"]["matchLabels"], *labels);
    let service = object(EVERYWHERE, "Service", "flux-operator-metrics");
    let monitor = &component("service-monitor", "ServiceMonitor")["spec"];
    assert_eq!(service["metadata"]["labels"], monitor["selector"]["matchLabels"]);
    assert_eq!(service["spec"]["selector"], *labels);
    assert_eq!(service["spec"]["ports"][0]["name"], monitor["endpoints"][0]["port"]);
    assert!(monitor["endpoints"][0]["port"].is_string());
}

#[test]
fn each_component_adds_the_object_of_its_name() {
    for (name, kind) in [
        ("alerts", "PrometheusRule"),
        ("dashboard", "ConfigMap"),
        ("network-policy", "NetworkPolicy"),
        ("pod-disruption-budget", "PodDisruptionBudget"),
        ("service-monitor", "ServiceMonitor"),
    ] {
        let kustomization = &objects(&format!("components/{name}/kustomization.yaml"))[0];
        assert_eq!(kustomization["kind"], "Component");
        assert_eq!(kustomization["resources"], json!([format!("{name}.yaml")]));
        let added = objects(&format!("components/{name}/{name}.yaml"));
        assert!(added.len() == 1 && added[0]["kind"] == kind, "{added:?}");
    }
}

/// API group, resource, verbs.
type Right = (String, String, Vec<String>);

/// The rows of the page's tables of rights: the only tables with four columns and code in the second and third.
fn listed(page: &str) -> BTreeSet<Right> {
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').collect();
        let [group, resource, verbs, why] = cells.as_slice() else { return None };
        let code = |cell: &str| -> Vec<String> {
            cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        let [resource]: [String; 1] = code(resource).try_into().ok()?;
        assert!(!why.trim().is_empty(), "no reason is given: {line}");
        let group = if group.trim() == "core" { String::new() } else { code(group).concat() };
        Some((group, resource, code(verbs)))
    });
    rows.collect()
}

fn given() -> BTreeSet<Right> {
    let rules = objects(EVERYWHERE).into_iter().filter_map(|object| {
        serde_json::from_value::<Vec<PolicyRule>>(object["rules"].clone()).ok()
    });
    let mut rights = BTreeSet::new();
    for PolicyRule { api_groups, resources, verbs, .. } in rules.flatten() {
        for group in api_groups.iter().flatten() {
            let of_group = resources.iter().flatten();
            rights.extend(of_group.map(|it| (group.clone(), it.clone(), verbs.clone())));
        }
    }
    rights
}

#[test]
fn every_right_has_a_reason_in_the_security_page() {
    let page = read_to_string(in_repository("docs/security.md")).unwrap();
    let (listed, given) = (listed(&page), given());
    assert!(given.len() > 10, "{given:?}");
    let missing: Vec<_> = given.difference(&listed).collect();
    let foreign: Vec<_> = listed.difference(&given).collect();
    assert!(missing.is_empty() && foreign.is_empty(), "missing {missing:?}, foreign {foreign:?}");
}
