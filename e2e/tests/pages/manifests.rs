//! `MiniClusters` in pages are what the operator accepts.

use crate::page::pages;
use flux_operator::cluster::validate::Defaults;
use flux_operator::crd::Install;
use flux_operator::offline::Checker;

#[test]
fn every_mini_cluster_in_a_page_is_accepted_and_has_no_field_without_effect() {
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
