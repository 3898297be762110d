//! The pages for users: the one that is generated, and the tests that the other one names.

mod about_examples;
mod examples;
mod fields;
mod operations;
mod page;
mod rights;

use std::path::{Path, PathBuf};

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Written anew by `UPDATE_EXPECT=1 cargo test -p flux-operator --test it reference`.
#[test]
fn the_page_in_docs_is_the_generated_one() {
    expect_test::expect_file!["../../../../docs/minicluster.md"].assert_eq(&page::page());
}

/// The text of every Rust file below `directory`.
fn sources(directory: &Path) -> String {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: PathBuf| match path.extension() {
        _ if path.is_dir() => sources(&path),
        Some(extension) if extension == "rs" => std::fs::read_to_string(&path).unwrap(),
        _ => String::new(),
    };
    entries.map(text).collect()
}

#[test]
fn every_bug_and_every_disagreement_is_listed_with_a_test_that_exists() {
    let page = std::fs::read_to_string(in_repository("docs/compatibility.md")).unwrap();
    let directories = ["operator/tests", "agent/tests", "e2e/tests"];
    let tests: String = directories.map(|it| sources(&in_repository(it))).concat();
    let row = |item: String| page.lines().find(|line| line.starts_with(&format!("| {item} |")));
    let bugs =
        (1..=24).map(|number| number.to_string()).chain(["1a", "1b", "9a"].map(String::from));
    let items = bugs.map(|number| format!("BUG {number}"));
    for item in items.chain((1..=19).map(|number| format!("DOC {number}"))) {
        let row = row(item.clone()).unwrap_or_else(|| panic!("{item} is not listed"));
        let shown_by = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let names =
            shown_by.split('`').skip(1).step_by(2).filter(|name| !name.contains(['/', '*']));
        for name in names {
            assert!(tests.contains(&format!("fn {name}()")), "{item}: there is no test {name}");
        }
        assert!(shown_by.contains('`') || shown_by.contains("as BUG"), "{item}: {shown_by}");
    }
}
