//! The definition of `MiniCluster` as it is installed.

use crate::support::any_spec::{OBJECT, SCHEMA};
use crate::support::field_path::schemas;
use flux_operator::crd::{self, Container, Flux, Logging, MiniCluster, MiniClusterSpec, Pod};
use serde_json::{Value, json};

/// What the API server does to an object before it stores it.
fn with_schema_defaults(schema: &Value, value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(default) = property.get("default") {
                fields.entry(name.clone()).or_insert_with(|| default.clone());
            }
            if let Some(field) = fields.get_mut(name) {
                with_schema_defaults(property, field);
            }
        }
        if schema["additionalProperties"].is_object() {
            for field in fields.values_mut() {
                with_schema_defaults(&schema["additionalProperties"], field);
            }
        }
    }
    for item in value.as_array_mut().into_iter().flatten() {
        with_schema_defaults(&schema["items"], item);
    }
}

#[test]
fn no_schema_is_nullable_or_has_a_format_the_api_server_does_not_know() {
    for (path, schema) in schemas(&OBJECT) {
        assert!(schema.get("nullable").is_none(), "{path}");
        let format = schema["format"].as_str().unwrap_or("int32");
        assert!(
            ["int32", "int64", "date-time", "double", "byte"].contains(&format),
            "{path} {format}"
        );
    }
}

/// What a user writes is bounded by the API server before the operator sees it; what
/// [`crd::SPECIFICATION_LIMIT`] bounds alone is an object of any form.
#[test]
fn every_text_list_and_map_that_a_user_writes_has_a_limit() {
    let found = schemas(&SCHEMA);
    assert!(found.len() > 200, "{}", found.len());
    for (path, schema) in found {
        let limited = |keyword: &str| schema[keyword].as_u64().is_some_and(|limit| limit > 0);
        let is_limited = match schema["type"].as_str() {
            Some("string") => schema["enum"].is_array() || limited("maxLength"),
            Some("array") => limited("maxItems"),
            Some("object") => schema["properties"].is_object() || limited("maxProperties"),
            Some("integer" | "boolean") => true,
            None => schema["x-kubernetes-int-or-string"] == true && limited("maxLength"),
            Some(other) => panic!("{path}: {other} is no type of this test"),
        };
        assert!(is_limited, "{path}: {schema}");
    }
}

#[test]
fn every_rule_has_a_message() {
    for (path, schema) in schemas(&OBJECT) {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            assert!(rule["message"].is_string() && rule["reason"].is_string(), "{path}: {rule}");
        }
    }
}

#[test]
fn defaults_of_the_schema_and_of_the_types_are_the_same() {
    for spec in [
        json!({ "containers": [{}] }),
        json!({ "containers": [{}], "flux": {}, "logging": {}, "network": {}, "pod": {} }),
        json!({
            "containers": [{ "volumes": { "a": {} }, "commands": {}, "fluxUser": {}, "lifeCycle": {} }],
            "flux": { "container": {}, "scheduler": {}, "bursting": { "leadBroker": {}, "clusters": [{}] } },
        }),
    ] {
        let object = json!({
            "apiVersion": "flux-framework.org/v1alpha2",
            "kind": "MiniCluster",
            "metadata": { "name": "hello" },
            "spec": spec,
        });
        let mut defaulted = object.clone();
        with_schema_defaults(&OBJECT, &mut defaulted);
        // By this, kstatus knows a MiniCluster that the operator has not seen yet.
        let status = defaulted.as_object_mut().unwrap().remove("status").unwrap();
        assert_eq!(status["observedGeneration"], -1);
        let from_server: MiniCluster = serde_json::from_value(defaulted.clone()).unwrap();
        let from_file: MiniCluster = serde_json::from_value(object).unwrap();
        assert_eq!(from_server, from_file);
        // What the types write is what the server stores: no default hides in the types alone.
        assert_eq!(serde_json::to_value(&from_file).unwrap(), defaulted);
    }
}

#[test]
fn the_values_of_default_are_those_of_an_empty_object() {
    fn same<T: Default + PartialEq + std::fmt::Debug + serde::de::DeserializeOwned>() {
        assert_eq!(serde_json::from_value::<T>(json!({})).unwrap(), T::default());
    }
    same::<Flux>();
    same::<Logging>();
    same::<Pod>();
    same::<Container>();
    same::<crd::FluxContainer>();
    same::<crd::Scheduler>();
    same::<crd::Network>();
    same::<crd::UserAccount>();
    same::<crd::MiniClusterStatus>();
    let spec: MiniClusterSpec = serde_json::from_value(json!({ "containers": [] })).unwrap();
    assert_eq!(spec, MiniClusterSpec::default());
}
