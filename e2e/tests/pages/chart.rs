//! The schema of the chart's values, and the repository that the chart names. `cargo verify` compares the values with the
//! schema, by helm.

use crate::repository;
use serde_json::Value;
use std::collections::BTreeSet;

fn parsed(name: &str) -> Value {
    let text = std::fs::read_to_string(repository().join("deploy/chart").join(name)).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

/// Checks that each part of a schema takes known fields only; charts share the values of `global`.
fn assert_strict(schema: &Value, path: &str) {
    if schema["properties"].is_object() && path != "/properties/global" {
        assert_eq!(schema["additionalProperties"], false, "{path}");
    }
    for (key, part) in schema.as_object().into_iter().flatten() {
        assert_strict(part, &format!("{path}/{key}"));
    }
}

#[test]
fn the_schema_is_strict_and_has_every_alert() {
    let schema = parsed("values.schema.json");
    assert_strict(&schema, "");
    let alerts = &schema["properties"]["prometheusRule"]["properties"]["alerts"]["properties"];
    let alerts: BTreeSet<_> = alerts.as_object().unwrap().keys().map(String::as_str).collect();
    let rules = parsed("files/rules.yaml");
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(
        rules.iter().map(|rule| rule["alert"].as_str().unwrap()).collect::<BTreeSet<_>>(),
        alerts
    );
}

#[test]
fn the_chart_names_one_repository() {
    let chart = parsed("Chart.yaml");
    assert!(chart["home"].as_str().unwrap().starts_with("https://"));
    assert_eq!(chart["sources"], Value::from(vec![chart["home"].clone()]));
}
