//! Every field of `status` says something at some time: the fields are taken from the definition, so
//! that a new one cannot be forgotten.

use crate::support::any_spec::{OBJECT, VERSION};
use crate::support::field_path::leaves;
use crate::support::world::{CLUSTER, JOB, World, finish};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Fields that are always empty, and why.
const ALWAYS_EMPTY: &[(&str, &str)] = &[(".jobid", "documented: kept for clients that read it")];

/// Paths of the fields of `value` that say something, as [`leaves`] has them.
fn told(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                told(&format!("{path}.{name}"), value, found);
            }
        }
        Value::Array(elements) => {
            for value in elements {
                told(&format!("{path}[]"), value, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            if ![json!(null), json!(0), json!("")].contains(value) {
                found.insert(path.to_owned());
            }
        }
    }
}

/// The status that the operator reports after a reconcile.
async fn reported(world: &World) -> Value {
    world.reconcile().await.unwrap();
    world.server.get(CLUSTER).unwrap()["status"].clone()
}

/// What is reported from the beginning of a run to its end.
async fn life() -> Vec<Value> {
    let world = World::new(&json!({}));
    let begun = reported(&world).await;
    world.server.change(JOB, |job| {
        job["status"] = json!({ "startTime": "2026-01-01T00:00:00Z", "active": 4, "ready": 4 });
    });
    let running = reported(&world).await;
    finish(&world, "Failed", 7);
    vec![begun, running, reported(&world).await]
}

#[tokio::test]
async fn every_field_of_the_status_says_something_at_some_time() {
    let mut found = BTreeSet::new();
    for status in life().await {
        told("", &status, &mut found);
    }
    let schema = OBJECT["properties"]["status"].clone();
    let fields: BTreeSet<String> = leaves(&schema).into_iter().map(|(path, _)| path).collect();
    assert!(fields.len() > 15, "only {} fields were found", fields.len());
    let silent: BTreeSet<&str> = fields.difference(&found).map(String::as_str).collect();
    assert_eq!(silent, ALWAYS_EMPTY.iter().map(|(path, _)| *path).collect());
    let unknown: Vec<&String> = found.difference(&fields).collect();
    assert!(unknown.is_empty(), "not in the definition: {unknown:?}");
}

#[test]
fn columns_and_the_scale_subresource_name_fields_that_exist() {
    let fields: Vec<String> = leaves(&OBJECT).into_iter().map(|(path, _)| path).collect();
    let scale = VERSION["subresources"]["scale"].as_object().unwrap().values();
    let columns = VERSION["additionalPrinterColumns"].as_array().unwrap();
    let paths = scale.chain(columns.iter().map(|column| &column["jsonPath"]));
    for path in paths.map(|path| path.as_str().unwrap()) {
        assert!(fields.iter().any(|it| it == path) || path.starts_with(".metadata."), "{path}");
    }
}
