//! Links lead somewhere, in the repository and in the book.

use crate::page::{Page, pages};
use crate::repository;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const SUMMARY: &str = "book/SUMMARY.md";

/// What is wrong with `link` in `page`; links to other sites are not checked.
fn fault(page: &Page, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let from = if path.is_empty() { page.path.clone() } else { page.path.with_file_name(path) };
    let Some(file) = repository().join(from).canonicalize().ok().filter(|it| it.is_file()) else {
        return Some("there is no such file".to_owned());
    };
    let Ok(target) = file.strip_prefix(repository()) else {
        return Some("leads out of the repository".to_owned());
    };
    if !repository().join("book").join(target).is_file() {
        return Some(format!("{} is not in the book: link it below book/", target.display()));
    }
    let is_there = || Page::read(target).anchors().iter().any(|it| it == anchor);
    (!anchor.is_empty() && !is_there())
        .then(|| format!("{} has no heading #{anchor}", target.display()))
}

#[test]
fn every_link_leads_to_a_file_or_a_heading() {
    let mut faults = Vec::new();
    let mut checked = 0;
    for page in pages() {
        for link in page.links() {
            checked += 1;
            let fault = fault(&page, &link);
            faults.extend(fault.map(|fault| format!("{}: {link}: {fault}", page.path.display())));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(checked > 200, "only {checked} links were found");
}

#[test]
fn every_page_is_in_the_book_once() {
    let listed = Page::read(Path::new(SUMMARY)).links();
    let once: BTreeSet<PathBuf> = listed.iter().map(PathBuf::from).collect();
    assert_eq!(listed.len(), once.len(), "a page is listed twice");
    let pages: BTreeSet<PathBuf> = pages().into_iter().map(|page| page.path).collect();
    let missing: Vec<_> = pages.difference(&once).collect();
    let foreign: Vec<_> = once.difference(&pages).collect();
    assert!(missing.is_empty() && foreign.is_empty(), "missing {missing:?}, foreign {foreign:?}");
}

/// The repository of the operator in Go has neither these pages nor these releases.
#[test]
fn nothing_leads_into_the_repository_of_the_operator_in_go() {
    let elsewhere = "https://github.com/flux-framework/flux-operator/";
    for folder in ["docs", "deploy", "examples", "view-images", "README.md", "CHANGELOG.md"] {
        for file in walkdir::WalkDir::new(repository().join(folder)) {
            let path = file.unwrap().into_path();
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(!text.contains(elsewhere), "{}", path.display());
        }
    }
}
