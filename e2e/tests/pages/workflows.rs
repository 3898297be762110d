//! The workflows use fixed versions, and a release can be installed.

use crate::repository;
use e2e::verify::{CARGO_DENY_VERSION, MDBOOK_VERSION};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(repository().join(path)).unwrap()).unwrap()
}

/// The output of the script for version 0.1.0, if CHANGELOG.md has a section with this heading.
fn release_notes(heading: &str) -> Option<String> {
    let directory = tempfile::tempdir().unwrap();
    let text = format!("# Changelog\n\n## {heading}\n\nNew.\n\n## 0.0.9 - 2026-01-01\n\nOld.\n");
    std::fs::write(directory.path().join("CHANGELOG.md"), text).unwrap();
    let mut script = Command::new(repository().join(".github/release-notes"));
    let output = script.arg("0.1.0").current_dir(&directory).output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_version_without_a_date_is_not_released() {
    for heading in ["0.1.0 - Unreleased", "0.1.0", "0.1.01 - 2026-12-24", "0.1.0 - 2026-12-24 ?"] {
        assert_eq!(release_notes(heading), None, "{heading}");
    }
    assert_eq!(release_notes("0.1.0 - 2026-12-24").as_deref(), Some("\nNew.\n\n"));
}

/// Runs git, or a script with git, in a directory; without settings of this machine.
fn git(program: &str, arguments: &[&str], directory: &Path) -> String {
    let mut command = Command::new(program);
    for (name, value) in [("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")] {
        command.env(name, value);
    }
    for of in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{of}_NAME"), "test")
            .env(format!("GIT_{of}_EMAIL"), "test@example.org");
    }
    let output = command.args(arguments).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn books_of_all_versions_are_published_side_by_side() {
    let root = tempfile::tempdir().unwrap();
    let [site, checkout] = ["site", "checkout"].map(|name| root.path().join(name));
    git("git", &["init", "--bare", "site"], root.path());
    git("git", &["init", "checkout"], root.path());
    git("git", &["commit", "--allow-empty", "--message", "All"], &checkout);
    git("git", &["remote", "add", "origin", site.to_str().unwrap()], &checkout);
    std::fs::create_dir_all(checkout.join("target/book")).unwrap();
    let script = repository().join(".github/publish-book");
    for (version, leads_to) in [("main", "main/"), ("0.1", "latest/"), ("main", "latest/")] {
        let page = format!("<a href=\"https://host/edit/main/book/docs/{version}.md\">");
        std::fs::write(checkout.join("target/book/page.html"), page).unwrap();
        git(script.to_str().unwrap(), &[version], &checkout);
        let page = git("git", &["show", &format!("gh-pages:{version}/page.html")], &site);
        assert_eq!(page, format!("<a href=\"https://host/edit/main/docs/{version}.md\">"));
        let index = git("git", &["show", "gh-pages:index.html"], &site);
        assert!(index.contains(&format!("url={leads_to}")), "{index}");
    }
    let latest = git("git", &["show", "gh-pages:latest/index.html"], &site);
    assert!(latest.contains("url=../0.1/"), "{latest}");
}

#[test]
fn a_release_has_each_image_of_the_manifests() {
    let jobs = &yaml(".github/workflows/release.yaml")["jobs"];
    assert!(jobs["image"]["if"].is_null());
    let built = jobs["image"]["strategy"]["matrix"]["include"].as_array().unwrap();
    let built: Vec<_> = built.iter().map(|image| image["image"].as_str().unwrap()).collect();
    let manifests = std::fs::read_to_string(repository().join("deploy/operator.yaml")).unwrap();
    let named = manifests.split("ghcr.io/flux-framework/").skip(1);
    let named: Vec<_> = named.map(|rest| rest.split_once(':').unwrap().0).collect();
    assert!(named.len() == 2 && named.iter().all(|name| built.contains(name)), "{named:?}");
}

#[test]
fn every_plugin_that_is_built_is_in_krews_manifest() {
    let jobs = &yaml(".github/workflows/release.yaml")["jobs"];
    let built = jobs["plugin"]["strategy"]["matrix"]["include"].as_array().unwrap();
    let manifest = yaml("deploy/krew/flux.yaml");
    let named = manifest["spec"]["platforms"].as_array().unwrap();
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(manifest["spec"]["version"], version);
    assert_eq!(built.len(), named.len());
    for (built, named) in built.iter().zip(named) {
        let [os, arch] = ["os", "arch"].map(|label| built[label].as_str().unwrap());
        let labels = &named["selector"]["matchLabels"];
        assert_eq!((&labels["os"], &labels["arch"]), (&built["os"], &built["arch"]));
        let file = format!("/releases/download/{version}/kubectl-flux-{os}-{arch}.tar.gz");
        assert!(named["uri"].as_str().unwrap().ends_with(&file), "{named}");
    }
}

#[test]
fn advisories_are_checked_weekly_by_the_same_cargo_deny() {
    let workflow = yaml(".github/workflows/advisories.yaml");
    let cron = workflow["on"]["schedule"][0]["cron"].as_str().unwrap();
    assert!(cron.ends_with("* * 1"), "{cron}");
    let steps = workflow["jobs"]["advisories"]["steps"].as_array().unwrap();
    let commands: Vec<_> = steps.iter().filter_map(|step| step["run"].as_str()).collect();
    let install = format!("cargo install --locked cargo-deny --version {CARGO_DENY_VERSION}");
    assert_eq!(commands, [install.as_str(), "cargo deny check advisories"]);
}

#[test]
fn the_book_is_published_by_the_mdbook_that_checks_it() {
    let text = std::fs::read_to_string(repository().join(".github/workflows/book.yaml")).unwrap();
    assert!(text.contains(&format!(
        "mdbook --version {MDBOOK_VERSION} --no-default-features --features=search"
    )));
}

#[test]
fn every_action_is_named_by_its_commit() {
    let directory = std::fs::read_dir(repository().join(".github/workflows")).unwrap();
    let mut used = 0;
    for path in directory.map(|entry| entry.unwrap().path()) {
        let text = std::fs::read_to_string(&path).unwrap();
        let actions = text.lines().filter_map(|line| line.split_once("uses: "));
        for (_, action) in actions.filter(|(_, action)| !action.starts_with("./")) {
            let (name, version) = action.split_once(" # v").unwrap_or((action, ""));
            let commit = name.split_once('@').map_or("", |(_, commit)| commit);
            let is_whole = commit.len() == 40 && commit.chars().all(|it| it.is_ascii_hexdigit());
            assert!(is_whole && !version.is_empty(), "{}: {action}", path.display());
            used += 1;
        }
    }
    assert!(used > 10, "only {used} uses of actions were found");
}
