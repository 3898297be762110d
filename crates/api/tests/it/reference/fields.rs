//! The fields of the definition, as values.

use flux_testkit::any_spec::requires;
use serde_json::Value;

/// A part of the API with fields of its own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    /// Where, as in `spec.containers[].volumes.<name>.path`.
    pub(super) path: String,
    pub(super) schema: Value,
    /// Whether the API server refuses an object without it.
    pub(super) required: bool,
    /// Path of the object inside, if this has fields that are documented here.
    pub(super) inner: Option<String>,
}

impl Field {
    /// Path of the object this is a field of.
    pub(super) fn parent(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(parent, _)| parent)
    }
}

/// Every field below `schema`, an object before its fields.
pub(super) fn fields(path: &str, schema: &Value) -> Vec<Field> {
    let mut all = Vec::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let required = requires(schema, name);
        let inside = object_inside(&path, field);
        let inner = inside.as_ref().map(|(inner, _)| inner.clone());
        all.push(Field { path, schema: field.clone(), required, inner });
        all.extend(inside.into_iter().flat_map(|(inner, schema)| fields(&inner, schema)));
    }
    all
}

/// The object in the field at `path`, be it this field itself, an item of the list or an entry of the map.
fn object_inside<'schema>(path: &str, schema: &'schema Value) -> Option<(String, &'schema Value)> {
    if is_of_kubernetes(path, schema) || same_as(path).is_some() {
        return None;
    }
    let candidates =
        [("", schema), ("[]", &schema["items"]), (".<name>", &schema["additionalProperties"])];
    let (suffix, object) = candidates.into_iter().find(|(_, it)| it["properties"].is_object())?;
    Some((format!("{path}{suffix}"), object))
}

/// The path whose fields are those of `path` as well, where two places have the same type.
pub(super) fn same_as(path: &str) -> Option<&'static str> {
    match path {
        "spec.services" => Some("spec.containers[]"),
        "spec.flux.leadBroker" => Some("spec.flux.bursting.leadBroker"),
        "spec.containers[].fluxuser" => Some("spec.containers[].fluxUser"),
        _ => None,
    }
}

/// The type of Kubernetes that the field at `path` is, if it is one.
pub(super) fn kubernetes_type(path: &str) -> Option<&'static str> {
    match path.rsplit_once('.').map_or(path, |(_, name)| name) {
        "resources" if path != "spec.pod.resources" => Some("ResourceRequirements"),
        "securityContext" if path == "spec.pod.securityContext" => Some("PodSecurityContext"),
        "securityContext" => Some("SecurityContext"),
        "tolerations" => Some("Toleration"),
        "overlay" => Some("PodSpec"),
        "conditions" => Some("Condition"),
        _ => None,
    }
}

fn is_of_kubernetes(path: &str, schema: &Value) -> bool {
    kubernetes_type(path).is_some()
        || path == "metadata"
        || schema["x-kubernetes-preserve-unknown-fields"] == true
}

/// The name of the type of the field at `path`: `integer`, `list of string`, `map of Quantity`.
pub(super) fn type_name(path: &str, schema: &Value) -> String {
    for (collection, of) in [("list", "items"), ("map", "additionalProperties")] {
        if schema[of].is_object() {
            return format!("{collection} of {}", type_name(path, &schema[of]));
        }
    }
    if let Some(name) = kubernetes_type(path) {
        return format!("`{name}` of Kubernetes");
    }
    let name = schema["type"].as_str().unwrap_or("any");
    let name = if schema["format"] == "date-time" { "time" } else { name };
    let is_quantity = schema["x-kubernetes-int-or-string"] == true;
    if is_quantity { "quantity" } else { name }.to_owned()
}

/// The limits of a number, and the values of an enumeration, as texts.
pub(super) fn limits(schema: &Value) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(range(&schema["minimum"], &schema["maximum"]));
    let items = &schema["items"];
    all.extend(range(&items["minimum"], &items["maximum"]).map(|range| format!("each {range}")));
    let values = schema["enum"].as_array().into_iter().flatten();
    let values: Vec<String> = values.map(|value| format!("`{}`", text(value))).collect();
    // A description that has them explains them.
    let description = schema["description"].as_str().unwrap_or_default();
    if !values.iter().all(|value| description.contains(value.as_str()) || value == "`\"\"`") {
        all.push(format!("one of {}", values.join(", ")));
    }
    all
}

fn range(minimum: &Value, maximum: &Value) -> Option<String> {
    match (minimum.as_f64().map(|_| text(minimum)), maximum.as_f64().map(|_| text(maximum))) {
        (Some(minimum), Some(maximum)) => Some(format!("{minimum} to {maximum}")),
        (Some(minimum), None) => Some(format!("at least {minimum}")),
        (None, Some(maximum)) => Some(format!("at most {maximum}")),
        (None, None) => None,
    }
}

/// A value as one writes it in YAML. The schema writes limits as floating point numbers.
pub(super) fn text(value: &Value) -> String {
    match value.as_str() {
        Some(text) if !text.is_empty() => text.to_owned(),
        Some(_) | None => value.to_string().trim_end_matches(".0").to_owned(),
    }
}
