//! Each row of `docs/failure-modes.md` names tests that show it, and these tests exist.

use crate::page::Page;
use crate::repository;
use std::path::Path;

const PAGE: &str = "docs/failure-modes.md";

/// The first words of the names of tests, with the folders that hold the files.
const PLACES: [(&str, &[&str]); 6] = [
    ("cluster", &["e2e/tests/cluster"]),
    ("node", &["e2e/tests/node"]),
    ("e2e", &["e2e/tests"]),
    ("flux-view", &["view-images/flux-view/tests", "view-images/flux-view/src"]),
    ("agent", &["agent/tests", "agent/src"]),
    ("operator", &["operator/tests/it", "operator/tests", "operator/src"]),
];

/// What is wrong with the name of a test.
fn fault(test: &str) -> Option<String> {
    let words: Vec<&str> = test.split("::").collect();
    if let ["example", name] = words[..] {
        let expected = format!("examples/{name}/expect.txt");
        let exists = repository().join(&expected).is_file();
        return (!exists).then(|| format!("there is no file {expected}"));
    }
    let [place, modules @ .., function] = &words[..] else {
        return Some("a test is named by its place, its file and its function".to_owned());
    };
    let Some((_, folders)) = PLACES.iter().find(|(name, _)| name == place) else {
        let known = PLACES.map(|(name, _)| name).join(", ");
        return Some(format!("no place of tests is called {place:?}: use {known} or example"));
    };
    let files = folders.iter().map(|folder| format!("{folder}/{}.rs", modules.join("/")));
    let files: Vec<String> = files.collect();
    let signature = format!("fn {function}(");
    let has_it = |file: &String| {
        let source = std::fs::read_to_string(repository().join(file));
        source.is_ok_and(|source| source.contains(&signature))
    };
    (!files.iter().any(has_it)).then(|| format!("no {signature}) in {}", files.join(" or ")))
}

#[test]
fn every_row_names_tests_and_they_exist() {
    let rows = Page::read(Path::new(PAGE)).rows();
    let mut faults = Vec::new();
    for row in &rows {
        let tests = &row[3].code;
        if tests.is_empty() {
            faults.push(format!("{}: names no test", row[0].text));
        }
        for test in tests {
            faults.extend(fault(test).map(|fault| format!("{}: {test}: {fault}", row[0].text)));
        }
    }
    assert!(faults.is_empty(), "{PAGE}:\n{}", faults.join("\n"));
    assert!(rows.len() > 50, "only {} rows were found", rows.len());
}

#[test]
fn names_that_lead_to_no_test_are_faults() {
    for good in [
        "cluster::examples::every_example_has_a_test",
        "node::two_nodes::miniclusters_on_two_nodes",
        "agent::pid1::ending::a_worker_restarts_or_leaves_by_its_policy",
        "example::deadline",
    ] {
        assert_eq!(fault(good), None);
    }
    for bad in [
        "cluster::examples::nosuch",
        "cluster::nosuch::every_example_has_a_test",
        "nosuch::examples::every_example_has_a_test",
        "cluster::every_example_has_a_test",
        "every_example_has_a_test",
        "example::nosuch",
        "",
    ] {
        assert!(fault(bad).is_some(), "{bad}");
    }
}
