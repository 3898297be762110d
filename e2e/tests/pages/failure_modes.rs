//! Each row of `docs/failure-modes.md` is shown by tests. `failure_modes.txt` names them, row by row, so that the page
//! is for readers and the names can be checked.

use crate::page::Page;
use crate::repository;
use std::collections::BTreeSet;
use std::path::Path;

const PAGE: &str = "docs/failure-modes.md";
const LIST: &str = include_str!("failure_modes.txt");

/// The first words of the names of tests, with the folders that hold the files.
const PLACES: [(&str, &[&str]); 5] = [
    ("cluster", &["e2e/tests/shared_cluster"]),
    ("node", &["e2e/tests/own_clusters"]),
    ("flux-view", &["view-images/flux-view/tests", "view-images/flux-view/src"]),
    ("agent", &["agent/tests/it", "agent/src"]),
    ("operator", &["operator/tests/it", "operator/tests", "operator/src"]),
];

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
        let places = PLACES.map(|(name, _)| name).join(", ");
        return Some(format!("no place of tests is called {place:?}: use {places} or example"));
    };
    let signature = format!("fn {function}(");
    let mut files = folders.iter().map(|folder| format!("{folder}/{}.rs", modules.join("/")));
    let has_it = |file: String| {
        let source = std::fs::read_to_string(repository().join(file));
        source.is_ok_and(|source| source.contains(&signature))
    };
    (!files.any(has_it)).then(|| format!("no {signature}) in {} of {folders:?}", modules.join("/")))
}

/// The rows of `list`, each with the names of its tests.
fn rows(list: &str) -> Vec<(&str, Vec<&str>)> {
    let mut rows: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match (line.strip_prefix("    "), rows.last_mut()) {
            (Some(test), Some((_, tests))) => {
                tests.push(test.split('#').next().unwrap_or_default().trim());
            }
            _ => rows.push((line, Vec::new())),
        }
    }
    rows
}

#[test]
fn every_row_has_tests_and_they_exist() {
    let page = Page::read(Path::new(PAGE)).rows();
    let page: BTreeSet<_> = page.iter().map(|row| row[0].as_str()).collect();
    let listed = rows(LIST);
    let names: BTreeSet<_> = listed.iter().map(|(row, _)| *row).collect();
    let mut faults: Vec<String> = page
        .symmetric_difference(&names)
        .map(|row| format!("only in one of both: {row}"))
        .collect();
    for (row, tests) in &listed {
        if tests.is_empty() {
            faults.push(format!("{row}: has no test"));
        }
        for test in tests {
            faults.extend(fault(test).map(|fault| format!("{row}: {test}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{PAGE} and failure_modes.txt:\n{}", faults.join("\n"));
    assert!(page.len() > 50, "only {} rows were found", page.len());
}

#[test]
fn names_that_lead_to_no_test_are_faults() {
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
