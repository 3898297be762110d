//! The versions of Kubernetes in the pages are those that the harness builds.

use crate::page::Page;
use crate::repository;
use e2e::kubernetes::KubernetesVersion;
use std::path::Path;

#[test]
fn the_table_of_versions_has_each_that_is_built() {
    let mut rows = Page::read(Path::new("docs/install.md")).rows();
    rows.retain(|row| row[0].starts_with("1."));
    for row in &rows {
        assert!(row.len() == 4 && row.iter().all(|cell| !cell.is_empty()), "{row:?}");
    }
    let named: Vec<_> = rows.iter().map(|row| format!("v{}", row[0])).collect();
    let built: Vec<_> = KubernetesVersion::all().iter().map(|version| version.full()).collect();
    assert_eq!(named, built);
}

#[test]
fn pages_and_chart_name_the_oldest_and_the_newest() {
    let (oldest, newest) = (KubernetesVersion::all()[0], KubernetesVersion::default());
    for (path, expected) in [
        ("README.md", format!("The oldest supported Kubernetes is {oldest}.")),
        ("docs/install.md", format!("The operator needs Kubernetes {oldest} or newer.")),
        ("docs/testing.md", format!("`cargo e2e up` builds Kubernetes {newest}")),
        ("deploy/chart/Chart.yaml", format!("kubeVersion: \">={oldest}.0-0\"")),
    ] {
        let text = std::fs::read_to_string(repository().join(path)).unwrap();
        assert!(text.contains(&expected), "{path} does not have: {expected}");
    }
}
