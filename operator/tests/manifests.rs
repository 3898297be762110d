//! The manifests that install the operator. That its role covers every request it makes is checked by
//! the API server of the other tests (`support/rights.rs`).
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use flux_operator::crd::Install;
use flux_operator::manifests::{self, Installation};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;
use std::path::Path;

/// An operator for one namespace, with images of its own.
fn of_a_tenant() -> Installation {
    Installation {
        only: Some("tenant".to_owned()),
        operator_image: "registry.example/operator:3".to_owned(),
        agent_image: "registry.example/agent:3".to_owned(),
        view_image: Some("registry.example/view:3".to_owned()),
        install: Some(Install::Image),
    }
}

/// Every document of every file.
fn documents(installation: &Installation) -> Vec<Value> {
    let files = manifests::files(installation).unwrap();
    let texts = files.iter().flat_map(|(_, text)| text.split("---\n").skip(1));
    texts.map(|text| serde_saphyr::from_str(text).unwrap()).collect()
}

fn resources(rule: &PolicyRule) -> Vec<String> {
    rule.resources.clone().unwrap()
}

#[test]
fn the_files_in_deploy_are_the_generated_ones() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    for (name, text) in manifests::files(&Installation::default()).unwrap() {
        let written = std::fs::read_to_string(directory.join(&name)).unwrap_or_default();
        assert!(
            written == text,
            "deploy/{name} is not what the code says: run `cargo run -p flux-operator -- manifests --output-directory deploy`"
        );
    }
}

#[test]
fn every_document_reads_back_as_an_object_with_a_name() {
    for object in documents(&Installation::default()).iter().chain(&documents(&of_a_tenant())) {
        assert!(object["kind"].is_string() && object["metadata"]["name"].is_string(), "{object}");
    }
}

#[test]
fn the_definition_reads_back_equal() {
    let definition =
        serde_json::to_value(flux_operator::crd::definition::definition().unwrap()).unwrap();
    assert!(documents(&Installation::default()).contains(&definition));
}

#[test]
fn an_operator_for_one_namespace_comes_with_nothing_outside_it() {
    let objects = documents(&of_a_tenant());
    let kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ServiceAccount", "Role", "RoleBinding", "Deployment", "Service"]);
    for object in &objects {
        assert_eq!(object["metadata"]["namespace"], "tenant", "{object}");
    }
    assert_eq!(objects[2]["subjects"][0]["namespace"], "tenant");
    let container = &objects[3]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example/operator:3");
    let arguments = [
        "run",
        "--leader-elect=true",
        "--agent-image=registry.example/agent:3",
        "--view-image=registry.example/view:3",
        "--install=Image",
        "--namespace=tenant",
    ];
    assert_eq!(container["args"], serde_json::json!(arguments));
}

#[test]
fn an_operator_for_one_namespace_may_do_there_what_the_other_may_do_everywhere() {
    let mut everywhere = manifests::cluster_role().rules.unwrap();
    // Nodes are in no namespace.
    everywhere.retain(|rule| resources(rule) != ["nodes"]);
    let there = manifests::role(&of_a_tenant()).rules.unwrap();
    assert!(everywhere.iter().all(|rule| there.contains(rule)));
    let own = manifests::role(&Installation::default()).rules.unwrap();
    assert_eq!(own.iter().flat_map(resources).collect::<Vec<_>>(), ["leases"]);
    assert_eq!(there.len(), everywhere.len() + own.len());
}

#[test]
fn the_operator_may_not_read_secrets_nor_touch_what_is_not_its_own() {
    for rule in &manifests::cluster_role().rules.unwrap() {
        let resources = resources(rule);
        assert!(!rule.verbs.iter().any(|verb| verb == "*"), "{resources:?}");
        assert!(!resources.iter().any(|resource| resource == "*" || resource == "pods/exec"));
        if resources.contains(&"secrets".to_owned()) {
            assert_eq!(rule.verbs, ["create"]);
        }
        if rule.verbs.contains(&"delete".to_owned()) {
            assert!(["miniclusters", "pods"].contains(&resources[0].as_str()), "{resources:?}");
        }
    }
}

#[test]
fn the_deployment_is_one_that_pod_security_restricted_admits() {
    let template =
        manifests::deployment(&Installation::default()).spec.unwrap().template.spec.unwrap();
    let pod = template.security_context.unwrap();
    assert_eq!(pod.run_as_non_root, Some(true));
    assert_eq!(pod.seccomp_profile.unwrap().type_, "RuntimeDefault");
    for container in template.containers {
        let context = container.security_context.unwrap();
        assert_eq!(context.allow_privilege_escalation, Some(false));
        assert_eq!(context.read_only_root_filesystem, Some(true));
        assert_eq!(context.capabilities.unwrap().drop.unwrap(), ["ALL"]);
        assert!(container.resources.unwrap().limits.unwrap().contains_key("memory"));
        assert!(container.liveness_probe.is_some() && container.readiness_probe.is_some());
    }
}

#[test]
fn selectors_fit_the_pods() {
    let deployment = manifests::deployment(&Installation::default()).spec.unwrap();
    let labels = deployment.template.metadata.unwrap().labels.unwrap();
    assert_eq!(deployment.selector.match_labels.unwrap(), labels);
    assert_eq!(
        manifests::metrics_service(&Installation::default()).spec.unwrap().selector.unwrap(),
        labels
    );
}
