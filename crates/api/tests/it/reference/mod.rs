//! The pages for users: the generated ones, and what tests check of the others.

mod about_examples;
mod fields;
mod operations;
pub(crate) mod page;

use flux_contract::Exit;
use std::path::{Path, PathBuf};

pub(crate) fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

pub(crate) fn page_in_docs() -> String {
    std::fs::read_to_string(in_repository("docs/minicluster.md")).unwrap()
}

/// Written anew by `UPDATE_EXPECT=1 cargo test -p flux-operator --test it reference`.
#[test]
fn the_page_in_docs_is_the_generated_one() {
    expect_test::expect_file!["../../../../docs/minicluster.md"]
        .assert_eq(&page::page(&page::examples(&page_in_docs())));
}

pub(crate) fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let found = |path: PathBuf| match path.extension() {
        _ if path.is_dir() => files(&path, extension),
        Some(it) if it == extension => vec![path],
        _ => vec![],
    };
    entries.flat_map(found).collect()
}

/// The text of every Rust file below `directory`.
pub(crate) fn sources(directory: &Path) -> String {
    files(directory, "rs").iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// Differences from the operator in Go, each with the tests that show it.
const DIFFERENCES: &str = include_str!("../go_differences.txt");

#[test]
fn every_difference_from_the_operator_in_go_is_shown_by_tests_that_exist() {
    let directories = ["operator/tests", "operator/src", "crates", "agent/tests", "e2e/tests"];
    let tests: String = directories.map(|it| sources(&in_repository(it))).concat();
    let bugs =
        (1..=24).map(|number| number.to_string()).chain(["1a", "1b", "9a"].map(String::from));
    let items = bugs.map(|number| format!("BUG {number}"));
    for item in items.chain((1..=19).map(|number| format!("DOC {number}"))) {
        let row = DIFFERENCES.split_once(&format!("\n{item}: "));
        let (_, row) = row.unwrap_or_else(|| panic!("{item} is not listed"));
        let names = row.lines().skip(1).map_while(|line| line.strip_prefix("    "));
        for name in names.clone() {
            assert!(tests.contains(&format!("fn {name}()")), "{item}: there is no test {name}");
        }
        assert!(names.count() > 0, "{item} has no test");
    }
}

#[test]
fn every_exit_code_of_the_agent_is_on_the_pages_for_people() {
    let page = |path| std::fs::read_to_string(in_repository(path)).unwrap();
    let (agent, troubleshooting) = (page("docs/agent.md"), page("docs/troubleshooting.md"));
    for exit in Exit::ALL {
        let row = format!("| {} | {} |", exit.code(), exit.reason());
        assert!(agent.contains(&row), "docs/agent.md has no row {row}");
        // No container ends with this one: it is of a subcommand that a person calls.
        let is_of_a_run = exit != Exit::Answer;
        let names = troubleshooting.contains(&format!("`{}`", exit.reason()));
        assert!(!is_of_a_run || names, "docs/troubleshooting.md lacks {}", exit.reason());
    }
}
