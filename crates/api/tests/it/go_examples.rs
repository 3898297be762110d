//! The Go operator's own examples: `go_examples.txt` lists them, and whether this operator refuses them. They are in
//! the checkout of that operator that `GO_OPERATOR_CHECKOUT` names.

use flux_api::offline::Checker;
use flux_testkit::repository::files;
use flux_testkit::samples::defaults;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const LIST: &str = include_str!("go_examples.txt");
const CHECKOUT: &str = "GO_OPERATOR_CHECKOUT";

/// Written anew with `UPDATE_EXPECT=1`.
#[test]
fn the_examples_are_accepted_or_refused_as_they_are_listed() {
    let Some(checkout) = std::env::var_os(CHECKOUT) else {
        // The test's own output is not shown, and people should see that this was not run.
        writeln!(std::io::stderr(), "skipped: {CHECKOUT} names no checkout of the Go operator")
            .unwrap();
        return;
    };
    let examples = Path::new(&checkout).join("examples");
    let checker = Checker::new(defaults());
    let verdict = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let faults = checker.findings(&path, &text).faults;
        let verdict = if faults.is_empty() { "accepted" } else { "refused" };
        let is_ours = text.lines().any(|line| line.trim_end() == "kind: MiniCluster");
        is_ours.then(|| format!("{verdict} {}", path.strip_prefix(&examples).unwrap().display()))
    };
    let mut lines: Vec<String> = files(&examples, "yaml").into_iter().filter_map(verdict).collect();
    lines.sort_unstable();
    lines.insert(0, LIST.lines().next().unwrap().to_owned());
    expect_test::expect_file!["go_examples.txt"].assert_eq(&format!("{}\n", lines.join("\n")));
}
