//! Manifests in pages: the operator accepts the MiniClusters, and other objects have known fields only.

use crate::page::pages;
use flux_api::cluster::validate::Defaults;
use flux_api::crd::Install;
use flux_api::offline::Checker;
use flux_contract::invocation::{READY_PORT, REST_PORT};
use flux_contract::labels;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[test]
fn every_minicluster_in_a_page_is_accepted_without_notes() {
    let image = || "registry.example/view:1".to_owned();
    let defaults = Defaults {
        view_image: image(),
        arm_view_image: image(),
        install: Install::default(),
        cluster_domain: None,
    };
    let checker = Checker::new(defaults);
    let mut count = 0;
    for page in pages() {
        let blocks = page.blocks().into_iter().filter(|block| block.language == "yaml");
        for block in blocks.filter(|block| block.text.contains("kind: MiniCluster\nmetadata:")) {
            let findings = checker.findings(&page.path, &block.text);
            assert!(findings.faults.is_empty(), "{:?}", findings.faults);
            assert!(findings.notes.is_empty(), "{:?}", findings.notes);
            count += findings.checked;
        }
    }
    assert!(count >= 8, "only {count} MiniClusters were found");
}

/// The only object of this kind in the pages, whose fields are all known.
fn object<T: Serialize + DeserializeOwned>(kind: &str) -> Value {
    let start = format!("\nkind: {kind}\n");
    let mut blocks = pages().into_iter().flat_map(|page| page.blocks());
    let block = blocks.find(|block| block.text.contains(&start)).unwrap();
    let value: Value = serde_saphyr::from_str(&block.text).unwrap();
    let known: T = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&known).unwrap(), value);
    value
}

#[test]
fn the_network_policy_selects_all_pods_and_their_ports() {
    let spec = &object::<NetworkPolicy>("NetworkPolicy")["spec"];
    let pods = json!({ "matchLabels": { labels::MANAGED_BY: labels::MANAGED_BY_VALUE } });
    for selector in ["/podSelector", "/ingress/0/from/0/podSelector", "/egress/0/to/0/podSelector"]
    {
        assert_eq!(spec.pointer(selector), Some(&pods), "{selector}");
    }
    assert_eq!(spec["ingress"][1]["ports"], json!([{ "port": READY_PORT }]));
    assert_eq!(spec["ingress"][2]["ports"], json!([{ "port": REST_PORT }]));
}

/// A percentage, and any `maxUnavailable`, need a scale of the pods' owner.
#[test]
fn the_disruption_budget_selects_the_lead_without_a_scale() {
    let spec = &object::<PodDisruptionBudget>("PodDisruptionBudget")["spec"];
    let lead = json!({ labels::JOB_NAME: "NAME", labels::COMPLETION_INDEX: "0" });
    assert_eq!(*spec, json!({ "minAvailable": 1, "selector": { "matchLabels": lead } }));
}
