//! The page about security names each right that `deploy/operator.yaml` gives, and no other.

use crate::reference::in_repository;
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;
use std::collections::BTreeSet;

/// API group, resource, verbs.
type Right = (String, String, Vec<String>);

/// The rows of the page's tables of rights. Theirs are the only tables with four columns and code in the
/// second and third.
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

/// What the installed roles give to the operator and to people.
fn given() -> BTreeSet<Right> {
    let installed = std::fs::read_to_string(in_repository("deploy/operator.yaml")).unwrap();
    let documents = serde_saphyr::from_multiple::<Value>(&installed).unwrap().into_iter();
    let rules = documents.filter_map(|object| {
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
fn every_right_is_on_the_page_about_security_with_a_reason() {
    let page = std::fs::read_to_string(in_repository("docs/security.md")).unwrap();
    let (listed, given) = (listed(&page), given());
    assert!(given.len() > 10, "{given:?}");
    let missing: Vec<_> = given.difference(&listed).collect();
    let foreign: Vec<_> = listed.difference(&given).collect();
    assert!(missing.is_empty() && foreign.is_empty(), "missing {missing:?}, foreign {foreign:?}");
}
