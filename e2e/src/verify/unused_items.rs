//! Public items that nothing uses: rustc warns of those of programs, not of those of libraries.

use crate::product::checkout;
use anyhow::{Result, ensure};
use fs_err as fs;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// What stands between `pub` and the name of an item.
const KEYWORDS: [&str; 9] =
    ["async", "const", "enum", "fn", "static", "struct", "trait", "type", "unsafe"];

/// Fails where an item is public and nothing names it but itself and the tests of the product.
pub(super) fn check() -> Result<()> {
    let mut code = String::new();
    for (_, text) in rust_files(&checkout()?)?.iter().filter(|(path, _)| !is_test(path)) {
        let tests = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
        let lines = text[..tests].lines().filter(|it| !it.trim_start().starts_with("//"));
        lines.for_each(|line| code.extend([line, "\n"]));
    }
    let unused = unused(&code).join(", ");
    ensure!(unused.is_empty(), "public, and used by tests at most: {unused}; delete or close them");
    Ok(())
}

/// Path and text of every source below this directory.
pub(super) fn rust_files(directory: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for entry in WalkDir::new(directory).into_iter().filter_entry(|it| it.file_name() != "target") {
        let path = entry?.into_path();
        if path.extension().is_some_and(|suffix| suffix == "rs") {
            files.push((path.clone(), fs::read_to_string(path)?));
        }
    }
    Ok(files)
}

fn unused(code: &str) -> Vec<&str> {
    let mut named = HashMap::<_, usize>::new();
    words(code).for_each(|word| *named.entry(word).or_default() += 1);
    code.lines().filter_map(public_item).filter(|item| named[item] == 1).collect()
}

/// The harness is made of tests: what they use is used.
fn is_test(path: &Path) -> bool {
    let has = |name: &str| path.iter().any(|it| it == name);
    !has("e2e") && (has("tests") || has("tests.rs") || has("fixtures.rs"))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|it: char| !it.is_alphanumeric() && it != '_').filter(|it| !it.is_empty())
}

fn public_item(line: &str) -> Option<&str> {
    let mut declared = words(line.trim_start().strip_prefix("pub ")?).peekable();
    declared.peek().filter(|word| KEYWORDS.contains(word))?;
    declared.find(|word| !KEYWORDS.contains(word))
}

#[test]
fn only_what_nothing_else_names_is_unused() {
    let code = "pub const fn alone() {}\n pub struct Used;\nfn private(it: Used) {}";
    assert_eq!(unused(code), ["alone"]);
}
