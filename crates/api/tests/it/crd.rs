//! The definition of `MiniCluster` as it is installed.

use flux_api::crd::{self, Container, Flux, Logging, MiniCluster, MiniClusterSpec, Pod};
use flux_testkit::any_spec::{OBJECT, SCHEMA, VERSION};
use flux_testkit::field_path::{leaves, schemas};
use serde_json::{Value, json};

/// Adds the defaults of `schema` to `value`, as the API server does before it stores an object.
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
fn the_api_server_accepts_each_schema_and_rules_have_messages() {
    for (path, schema) in schemas(&OBJECT) {
        assert!(schema.get("nullable").is_none(), "{path}");
        let format = schema["format"].as_str().unwrap_or("int32");
        assert!(
            ["int32", "int64", "date-time", "double", "byte"].contains(&format),
            "{path} {format}"
        );
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            assert!(rule["message"].is_string() && rule["reason"].is_string(), "{path}: {rule}");
        }
    }
}

/// The API server bounds each field before the operator reads it, except for an object of any form, which only
/// [`crd::SPECIFICATION_LIMIT`] bounds.
#[test]
fn every_text_list_and_map_of_users_has_a_limit() {
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
fn schema_and_types_have_the_same_defaults() {
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
        // By this value kstatus finds a MiniCluster that the operator has not seen yet.
        let status = defaulted.as_object_mut().unwrap().remove("status").unwrap();
        assert_eq!(status["observedGeneration"], -1);
        let from_server: MiniCluster = serde_json::from_value(defaulted.clone()).unwrap();
        let from_file: MiniCluster = serde_json::from_value(object).unwrap();
        assert_eq!(from_server, from_file);
        // The types write the same as the server stores: no default is in the types alone.
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
