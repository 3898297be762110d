//! What pages say of the versions of Kubernetes is what the harness builds.

use crate::repository;
use e2e::kubernetes::KubernetesVersion;

fn text(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

/// The rows of the table of versions in `docs/install.md`, as words.
fn table() -> Vec<Vec<String>> {
    let page = text("docs/install.md");
    let lines = page.lines().skip_while(|line| !line.starts_with("| Kubernetes |"));
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    rows.map(words).collect()
}

fn words(row: &str) -> Vec<String> {
    row.trim_matches('|').split(" | ").map(|word| word.trim().to_owned()).collect()
}

#[test]
fn the_table_of_versions_has_those_that_the_harness_builds() {
    let named: Vec<_> = table().into_iter().map(|row| format!("v{}", row[0])).collect();
    let built: Vec<_> = KubernetesVersion::all().iter().map(|version| version.full()).collect();
    assert_eq!(named, built);
}

#[test]
fn every_version_of_the_table_says_what_was_seen() {
    for row in table() {
        assert!(row.len() == 4 && row.iter().all(|word| !word.is_empty()), "{row:?}");
    }
}

#[test]
fn pages_and_chart_name_the_oldest_and_the_newest() {
    let (oldest, newest) = (KubernetesVersion::all()[0], KubernetesVersion::default());
    for (path, said) in [
        ("README.md", format!("The oldest supported Kubernetes is {oldest}.")),
        ("docs/install.md", format!("The operator needs Kubernetes {oldest} or newer.")),
        ("docs/testing.md", format!("`cargo e2e up` builds Kubernetes {newest}")),
        ("deploy/chart/Chart.yaml", format!("kubeVersion: \">={oldest}.0-0\"")),
    ] {
        assert!(text(path).contains(&said), "{path} does not say: {said}");
    }
}
