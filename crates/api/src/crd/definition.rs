//! The `CustomResourceDefinition` that is installed, made from the derived one.

use super::{MiniCluster, bounds};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::core::cel::{CompiledSchema, compile_schema};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// Fields with a whole Kubernetes type, whose inner descriptions would be most of the definition.
const KUBERNETES_TYPES: [&str; 4] = ["resources", "securityContext", "tolerations", "conditions"];

/// The definition that `flux-operator crd` prints and that `deploy/crd.yaml` contains.
///
/// It differs from the derived one in that
/// - no field is `nullable`, so that defaults also apply to a null;
/// - an object with defaults inside has the default `{}`, so that they apply without it as well;
/// - each paragraph of a description is one line, which viewers wrap;
/// - descriptions inside embedded Kubernetes types are left out;
/// - a status that the operator has not written yet has the generation -1, which kstatus reads as in progress;
/// - every text, list and map of the specification has a limit.
pub fn definition() -> serde_json::Result<CustomResourceDefinition> {
    let mut definition = serde_json::to_value(MiniCluster::crd())?;
    for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        for_each_schema("", schema, &mut normalize_schema);
        for_each_schema("spec", &mut schema["properties"]["spec"], &mut bounds::bound);
        schema["properties"]["status"]["default"] = json!({ "observedGeneration": -1 });
    }
    serde_json::from_value(definition)
}

/// The CEL rules of `spec` in the definition.
pub(crate) static SPECIFICATION_RULES: LazyLock<CompiledSchema> =
    LazyLock::new(|| compile_schema(&SPECIFICATION_SCHEMA));

pub(crate) static SPECIFICATION_SCHEMA: LazyLock<Value> =
    LazyLock::new(|| OBJECT_SCHEMA["properties"]["spec"].clone());

pub(crate) static OBJECT_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    // Tests check that the definition exists and has all limits.
    let definition = definition().ok().and_then(|definition| serde_json::to_value(definition).ok());
    let version = definition.map(|definition| definition["spec"]["versions"][0].clone());
    version.unwrap_or_default()["schema"]["openAPIV3Schema"].clone()
});

fn for_each_schema(
    name: &str,
    schema: &mut Value,
    change: &mut impl FnMut(&str, &mut Map<String, Value>),
) {
    let Some(fields) = schema.as_object_mut() else { return };
    change(name, fields);
    let properties = fields.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        for_each_schema(name, property, change);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(inner) {
            for_each_schema(name, inner, change);
        }
    }
}

fn normalize_schema(name: &str, schema: &mut Map<String, Value>) {
    schema.remove("nullable");
    if schema.get("default").is_some_and(Value::is_object) {
        schema.insert("default".to_owned(), Value::Object(Map::default()));
    }
    let Some(description) = schema.remove("description") else { return };
    if KUBERNETES_TYPES.contains(&name) {
        let mut whole = Value::Object(std::mem::take(schema));
        for_each_schema(name, &mut whole, &mut |_, inner| drop(inner.remove("description")));
        *schema = whole.as_object().cloned().unwrap_or_default();
    }
    let description = description.as_str().map(unbroken);
    schema.insert("description".to_owned(), description.into());
}

/// `text` with each paragraph and each list entry on one line.
fn unbroken(text: &str) -> String {
    let mut unbroken = String::with_capacity(text.len());
    for line in text.lines().map(str::trim_end) {
        let begins = line.is_empty() || line.starts_with("- ");
        if !unbroken.is_empty() {
            unbroken.push(if begins || unbroken.ends_with('\n') { '\n' } else { ' ' });
        }
        unbroken.push_str(line.trim_start());
    }
    unbroken
}
