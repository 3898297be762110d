//! The schema of the chart's values, and the repository that the chart names.

use crate::repository;
use serde_json::{Map, Value};

/// The objects that may have more fields than `values.yaml` has.
const OPTIONAL: [&str; 4] =
    ["livenessProbe", "prometheusRule.alerts", "readinessProbe", "updateStrategy"];

fn parsed(name: &str) -> Value {
    let text = std::fs::read_to_string(repository().join("deploy/chart").join(name)).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

/// Checks that `values` and `schema`, a part of `whole`, have the same keys, and that each has a type.
fn compare(values: &Value, schema: &Value, whole: &Value, path: &str) {
    let reference = schema["$ref"].as_str().map(|it| it.trim_start_matches('#'));
    let schema = reference.map_or(schema, |it| whole.pointer(it).unwrap());
    let Some(properties) = schema["properties"].as_object() else {
        assert!(schema.get("type").or(schema.get("enum")).is_some(), "{path} may be anything");
        return;
    };
    // Charts share the values of `global`.
    assert_eq!(schema["additionalProperties"] == false, path != "global", "{path}");
    let none = Map::new();
    let values = values.as_object().unwrap_or(&none);
    for key in values.keys() {
        assert!(properties.contains_key(key), "the schema lacks {key} in {path}");
    }
    for (key, schema) in properties {
        let is_optional = OPTIONAL.iter().any(|optional| path.starts_with(optional));
        assert!(is_optional || values.contains_key(key), "values.yaml lacks {key} in {path}");
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        compare(values.get(key).unwrap_or(&Value::Null), schema, whole, &path);
    }
}

#[test]
fn the_schema_has_every_value_and_no_other() {
    let schema = parsed("values.schema.json");
    compare(&parsed("values.yaml"), &schema, &schema, "");
    let alerts = &schema["properties"]["prometheusRule"]["properties"]["alerts"]["properties"];
    let rules = parsed("files/rules.yaml");
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    let names: Map<_, _> = rules
        .iter()
        .map(|rule| {
            let name = rule["alert"].as_str().unwrap();
            (name.to_owned(), alerts[name].clone())
        })
        .collect();
    assert_eq!(*alerts, Value::Object(names));
}

#[test]
fn the_chart_names_one_repository() {
    let chart = parsed("Chart.yaml");
    assert!(chart["home"].as_str().unwrap().starts_with("https://"));
    assert_eq!(chart["sources"], Value::from(vec![chart["home"].clone()]));
}
