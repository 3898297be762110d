//! Checks alerts and dashboard with `promtool` of Prometheus, from PATH or the directory in `PROMETHEUS`. `cargo verify`
//! builds it. By hand:
//!
//! `cargo test -p flux-operator --test monitoring -- --ignored`
//!
//! `src/metrics/tests.rs` checks that their metrics and labels exist.
#![expect(clippy::unwrap_used, reason = "these are tests, helpers included")]

use flux_testkit::repository::in_repository;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of `promtool`.
const PROMETHEUS: &str = "PROMETHEUS";
/// Values for the variables of Grafana.
const VARIABLES: [(&str, &str); 2] = [("$__rate_interval", "1m"), ("$job", "flux-operator")];

fn promtool(arguments: [&str; 2], file: &Path) {
    let directory = std::env::var_os(PROMETHEUS).map(PathBuf::from).unwrap_or_default();
    let mut command = Command::new(directory.join("promtool"));
    let output = command.args(arguments).arg(file).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{command:?}:\n{said}");
}

#[test]
#[ignore = "needs promtool"]
fn the_alerts_are_valid_and_fire_when_they_should() {
    promtool(["check", "rules"], &in_repository("deploy/chart/files/rules.yaml"));
    promtool(["test", "rules"], &in_repository("operator/tests/monitoring/alerts.yaml"));
}

/// Each expression of the dashboard, with values in the place of variables.
fn expressions_of_dashboard() -> Vec<String> {
    let text = std::fs::read_to_string(in_repository("deploy/chart/files/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let of_prometheus = json!({ "type": "prometheus", "uid": "${datasource}" });
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert!(variables.iter().any(|it| it["name"] == "datasource" && it["type"] == "datasource"));
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let mut expressions = Vec::new();
    for panel in panels {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty() && panel["datasource"] == of_prometheus, "{panel}");
        for target in targets {
            assert_eq!(target["datasource"], of_prometheus, "{panel}");
            let mut expression = target["expr"].as_str().unwrap().to_owned();
            for (variable, value) in VARIABLES {
                expression = expression.replace(variable, value);
            }
            assert!(!expression.contains('$'), "{expression}");
            expressions.push(expression);
        }
    }
    expressions
}

#[test]
#[ignore = "needs promtool"]
fn the_expressions_of_the_dashboard_are_valid() {
    let record = |(number, expression): (usize, String)| json!({ "record": format!("expression:{number}"), "expr": expression });
    let rules: Vec<Value> =
        expressions_of_dashboard().into_iter().enumerate().map(record).collect();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rules.yaml");
    let groups = json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    std::fs::write(&file, groups.to_string()).unwrap();
    promtool(["check", "rules"], &file);
}
