//! Outputs that the pages of examples show are those that their tests on a cluster expect.

use crate::page::{Page, pages};
use e2e::examples::{expects, names};
use std::path::Path;

/// The lines of its console blocks: those to type, without their prompt, and those that are shown.
fn typed_and_shown(page: &Page) -> (Vec<String>, Vec<String>) {
    let (mut typed, mut shown) = (Vec::new(), Vec::new());
    for block in page.blocks().iter().filter(|block| block.language == "console") {
        for line in block.text.lines().filter(|line| !line.is_empty() && *line != "...") {
            match line.strip_prefix("$ ") {
                Some(line) => typed.push(line.to_owned()),
                None => shown.push(line.to_owned()),
            }
        }
    }
    (typed, shown)
}

/// The examples that the lines to type apply.
fn applied(typed: &[String]) -> Vec<String> {
    let names = names().unwrap().into_iter();
    let applies = |name: &String| {
        let directory = format!("examples/{name}");
        typed.iter().flat_map(|line| line.split_whitespace()).any(|word| {
            word.strip_prefix(&directory)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    names.filter(applies).collect()
}

/// The shown lines that no step of these examples expects.
fn unexpected(page: &Page) -> Vec<String> {
    let (typed, shown) = typed_and_shown(page);
    let examples = applied(&typed);
    let is_expected = |line: &String| examples.iter().any(|name| expects(name, line).unwrap());
    shown.into_iter().filter(|line| !is_expected(line)).collect()
}

#[test]
fn every_output_of_a_tutorial_is_expected_by_the_test_of_its_example() {
    let tutorials = pages().into_iter().filter(|page| page.path.starts_with("docs/tutorials"));
    let mut shown = 0;
    for page in tutorials {
        let unexpected = unexpected(&page);
        assert!(unexpected.is_empty(), "{}: {unexpected:#?}", page.path.display());
        shown += typed_and_shown(&page).1.len();
    }
    assert!(shown > 20, "only {shown} lines of output were found");
}

#[test]
fn the_page_of_each_example_starts_it_shows_its_output_and_deletes_it() {
    for name in names().unwrap() {
        let page = Page::read(&Path::new("examples").join(&name).join("README.md"));
        let (typed, shown) = typed_and_shown(&page);
        for command in [
            format!("kubectl apply -f examples/{name}"),
            format!("kubectl delete -f examples/{name}"),
        ] {
            assert!(
                typed.contains(&command) || name == "cleanup",
                "{name}: `$ {command}` is missing"
            );
        }
        assert!(!shown.is_empty(), "{name}: no output is shown");
        assert_eq!(unexpected(&page), [""; 0], "{name}");
    }
}
