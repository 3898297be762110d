//! The pages are few words: nobody reads more.

use crate::page::{Page, pages};
use std::path::Path;

/// Most words of the README and all pages below docs/, and of those that users read.
const ALL: usize = 42_000;
const OF_USERS: usize = 32_000;

/// What contributors read.
const FOR_CONTRIBUTORS: [&str; 4] =
    ["docs/design", "docs/architecture.md", "docs/testing.md", "docs/evidence.md"];

/// Words have a letter or a digit: marks of tables are none.
fn words(page: &Page) -> usize {
    page.text().split_whitespace().filter(|it| it.contains(char::is_alphanumeric)).count()
}

#[test]
fn the_pages_have_few_words() {
    let (mut all, mut of_users) = (0, 0);
    let is_counted =
        |page: &Page| page.path.starts_with("docs") || page.path == Path::new("README.md");
    for page in pages().iter().filter(|page| is_counted(page)) {
        all += words(page);
        if !FOR_CONTRIBUTORS.iter().any(|start| page.path.starts_with(start)) {
            of_users += words(page);
        }
    }
    assert!(all <= ALL && of_users <= OF_USERS, "{all} words, {of_users} of them for users");
}
