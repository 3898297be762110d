//! The `CustomResourceDefinition` as it is installed: the derived one, made smaller and plainer.

use super::{MiniCluster, bounds};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::core::cel::{CompiledSchema, compile_schema};
use serde_json::Value;
use std::sync::LazyLock;

/// Fields that hold a whole Kubernetes type: their own fields are documented by Kubernetes, and
/// those descriptions would be most of the definition.
const KUBERNETES_TYPES: [&str; 4] = ["resources", "securityContext", "tolerations", "conditions"];

/// The definition that `flux-operator crd` prints, and `deploy/crd.yaml` has.
///
/// It differs from the derived one in that
/// - no field is `nullable`, so that a null is as good as leaving the field out and defaults apply;
/// - an object with defaults inside has the default `{}`, so that they apply without it as well;
/// - a description's paragraphs are each one line: who shows them breaks them at a width of its own;
/// - descriptions inside embedded Kubernetes types are left out;
/// - every text, list and map of the specification has a limit.
pub fn definition() -> serde_json::Result<CustomResourceDefinition> {
    let mut definition = serde_json::to_value(MiniCluster::crd())?;
    for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        plain(schema);
        bounds::bound("spec", &mut schema["properties"]["spec"]);
    }
    serde_json::from_value(definition)
}

/// The CEL rules of `spec` in the definition.
pub(crate) static SPECIFICATION_RULES: LazyLock<CompiledSchema> =
    LazyLock::new(|| compile_schema(&SPECIFICATION_SCHEMA));

/// The schema of `spec` in the definition.
pub(crate) static SPECIFICATION_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    // That it is there, and limits what it should, is tested.
    let definition = definition().ok().and_then(|definition| serde_json::to_value(definition).ok());
    let version = definition.map(|definition| definition["spec"]["versions"][0].clone());
    let schema = version.unwrap_or_default()["schema"]["openAPIV3Schema"].clone();
    schema["properties"]["spec"].clone()
});

/// Applies the rules of [`definition`] to a schema and the schemas in it.
fn plain(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.remove("nullable");
    if let Some(Value::String(description)) = fields.get_mut("description") {
        *description = unbroken(description);
    }
    if fields.get("default").is_some_and(Value::is_object) {
        fields.insert("default".to_owned(), Value::Object(serde_json::Map::default()));
    }
    for (name, property) in
        fields.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten()
    {
        plain(property);
        if KUBERNETES_TYPES.contains(&name.as_str()) {
            undescribed(property, true);
        }
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(inner) {
            plain(inner);
        }
    }
}

/// `text` with each paragraph on one line. Entries of lists keep their lines.
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

/// Removes descriptions inside `schema`, and its own unless it is the outermost.
fn undescribed(schema: &mut Value, outermost: bool) {
    let Some(fields) = schema.as_object_mut() else { return };
    if !outermost {
        fields.remove("description");
    }
    for property in fields
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(serde_json::Map::values_mut)
    {
        undescribed(property, false);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(inner) {
            undescribed(inner, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_become_lines() {
        for (text, expected) in [
            ("one\ntwo", "one two"),
            ("one\ntwo\n\nthree\nfour\n", "one two\n\nthree four"),
            ("of these:\n- one,\n  more\n- two", "of these:\n- one, more\n- two"),
        ] {
            assert_eq!(unbroken(text), expected);
        }
    }

    #[test]
    fn no_description_is_broken_in_the_middle_of_a_sentence() {
        fn walk(path: &str, schema: &Value) {
            let text = schema["description"].as_str().unwrap_or_default();
            let mut lines = text.lines().peekable();
            while let Some(line) = lines.next() {
                let next = lines.peek().copied().unwrap_or_default();
                let may_end = line.is_empty() || next.is_empty() || next.starts_with("- ");
                assert!(may_end, "{path}: {text}");
            }
            for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
                walk(&format!("{path}.{name}"), inner);
            }
            for inner in ["items", "additionalProperties"] {
                if let Some(inner) = schema.get(inner) {
                    walk(path, inner);
                }
            }
        }
        let definition = serde_json::to_value(definition().unwrap()).unwrap();
        walk("", &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
    }
}
