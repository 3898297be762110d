//! The manifests that install the operator.

use flux_operator::manifests;
use std::path::Path;

#[test]
fn the_files_in_deploy_are_the_generated_ones() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    for (name, text) in manifests::files().unwrap() {
        let written = std::fs::read_to_string(directory.join(&name)).unwrap_or_default();
        assert!(
            written == text,
            "deploy/{name} is not what the code says: run `cargo run -p flux-operator -- manifests --output-directory deploy`"
        );
    }
}

#[test]
fn every_document_reads_back_as_an_object_with_a_name() {
    for (file, text) in manifests::files().unwrap() {
        for document in text.split("---\n").skip(1) {
            let object: serde_json::Value = serde_saphyr::from_str(document).unwrap();
            assert!(object["kind"].is_string() && object["metadata"]["name"].is_string(), "{file}");
        }
    }
}

#[test]
fn the_definition_reads_back_equal() {
    let (_, text) = &manifests::files().unwrap()[0];
    let written: serde_json::Value = serde_saphyr::from_str(text).unwrap();
    let definition = serde_json::to_value(flux_operator::crd::definition().unwrap()).unwrap();
    assert_eq!(written, definition);
}

#[test]
fn the_operator_may_not_list_secrets_nor_touch_what_is_not_its_own() {
    let rules = manifests::cluster_role().rules.unwrap();
    for rule in &rules {
        let resources = rule.resources.clone().unwrap();
        assert!(!rule.verbs.iter().any(|verb| verb == "*"), "{resources:?}");
        assert!(!resources.iter().any(|resource| resource == "*" || resource == "pods/exec"));
        if resources.contains(&"secrets".to_owned()) {
            assert_eq!(rule.verbs, ["get", "create"]);
        }
        if rule.verbs.contains(&"delete".to_owned()) {
            assert!(["miniclusters", "pods"].contains(&resources[0].as_str()), "{resources:?}");
        }
    }
}

#[test]
fn the_deployment_is_one_that_pod_security_restricted_admits() {
    let template = manifests::deployment().spec.unwrap().template.spec.unwrap();
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
    let deployment = manifests::deployment().spec.unwrap();
    let labels = deployment.template.metadata.unwrap().labels.unwrap();
    assert_eq!(deployment.selector.match_labels.unwrap(), labels);
    assert_eq!(manifests::metrics_service().spec.unwrap().selector.unwrap(), labels);
}
