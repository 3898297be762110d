//! The Go operator's own examples: `go_examples.txt` lists each of them once, and calls refused exactly
//! those that this operator refuses. The files are the Go operator's:
//! `GO_OPERATOR_CHECKOUT` names a checkout of it.

use crate::support::defaults;
use flux_operator::offline::Checker;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const LIST: &str = include_str!("go_examples.txt");
const CHECKOUT: &str = "GO_OPERATOR_CHECKOUT";

/// Every example of the list, by its path below `examples/`, and whether it is called refused.
fn listed() -> BTreeMap<PathBuf, bool> {
    let mut listed = BTreeMap::new();
    for line in LIST.lines().filter(|line| !line.starts_with('#')) {
        let (verdict, file) = line.split_once(' ').unwrap();
        assert!(["accepted", "refused"].contains(&verdict), "{line}");
        assert_eq!(listed.insert(file.into(), verdict == "refused"), None, "{file} twice");
    }
    listed
}

/// The YAML files below `folder` that hold a MiniCluster.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = fs::read_to_string(&path).unwrap();
            if text.lines().any(|line| line.trim_end() == "kind: MiniCluster") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn the_list_has_every_example_and_calls_refused_what_is_refused() {
    let listed = listed();
    assert!(listed.len() > 60, "the list is not where it was");
    let Some(checkout) = std::env::var_os(CHECKOUT) else {
        // Past the capture of the test's output: what was not run is to be seen.
        writeln!(std::io::stderr(), "skipped: {CHECKOUT} names no checkout of the Go operator")
            .unwrap();
        return;
    };
    let examples = Path::new(&checkout).join("examples");
    let checker = Checker::new(defaults());
    let seen = files(&examples).into_iter().map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let found = checker.findings(&path, &text);
        let file = path.strip_prefix(&examples).unwrap().to_owned();
        (file, !found.faults.is_empty())
    });
    let (seen, listed) = (seen.collect::<BTreeSet<_>>(), listed.into_iter().collect());
    let differences: Vec<_> = seen.symmetric_difference(&listed).collect();
    assert!(differences.is_empty(), "files and whether they are refused: {differences:#?}");
}
