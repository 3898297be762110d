//! The Go operator's own examples: `go_examples.txt` lists them, and whether this operator refuses them. The files are the Go operator's:
//! `GO_OPERATOR_CHECKOUT` names a checkout of it.

use crate::support::defaults;
use flux_operator::offline::Checker;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const LIST: &str = include_str!("go_examples.txt");
const CHECKOUT: &str = "GO_OPERATOR_CHECKOUT";

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

/// Written anew with `UPDATE_EXPECT=1`.
#[test]
fn the_examples_are_accepted_or_refused_as_they_are_listed() {
    let Some(checkout) = std::env::var_os(CHECKOUT) else {
        // Past the capture of the test's output: what was not run is to be seen.
        writeln!(std::io::stderr(), "skipped: {CHECKOUT} names no checkout of the Go operator")
            .unwrap();
        return;
    };
    let examples = Path::new(&checkout).join("examples");
    let checker = Checker::new(defaults());
    let verdict = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let faults = checker.findings(path, &text).faults;
        let verdict = if faults.is_empty() { "accepted" } else { "refused" };
        format!("{verdict} {}", path.strip_prefix(&examples).unwrap().display())
    };
    let mut lines: Vec<String> = files(&examples).iter().map(verdict).collect();
    lines.sort_unstable();
    lines.insert(0, LIST.lines().next().unwrap().to_owned());
    expect_test::expect_file!["go_examples.txt"].assert_eq(&format!("{}\n", lines.join("\n")));
}
