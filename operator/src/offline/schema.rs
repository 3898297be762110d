//! What the API server refuses by the definition alone: fields that are not in it, values of another
//! type, and values beyond its limits.

mod suggestion;

use crate::crd::definition::{DefinitionError, definition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use suggestion::remedy;

/// Longest text of a value in a message, in characters.
const SHOWN_LIMIT: usize = 40;

/// One thing that the definition does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SchemaFault {
    /// Where, e.g. `spec.containers[0].environment[A]`.
    pub(super) path: String,
    /// What is wrong, and what to do about it.
    pub(super) message: String,
    /// Which kind of fault it is.
    pub(super) kind: FaultKind,
}

/// How much is left to be checked in spite of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// A field that is not in the definition: nothing else is concerned.
    Unknown,
    /// A value that cannot be read: rules across fields cannot be checked.
    Unreadable,
    /// A value that can be read, beyond a limit.
    Limit,
}

/// The definition of MiniCluster, with the fields of `metadata`, which Kubernetes defines.
pub(super) fn schema() -> Result<Value, DefinitionError> {
    let mut schema = definition()?
        .spec
        .versions
        .into_iter()
        .next()
        .and_then(|version| version.schema?.open_api_v3_schema)
        .map(serde_json::to_value)
        .transpose()
        .map_err(|source| DefinitionError::Rewrite { source })?
        .unwrap_or_default();
    let settings = SchemaSettings::openapi3().with(|settings| settings.inline_subschemas = true);
    let metadata = settings.into_generator().into_root_schema_for::<ObjectMeta>();
    schema["properties"]["metadata"] = metadata.to_value();
    for field in ["apiVersion", "kind"] {
        schema["properties"][field] = serde_json::json!({ "type": "string" });
    }
    Ok(schema)
}

/// Everything in `document` that `schema` does not allow, in the order of the document's fields.
pub(super) fn faults(schema: &Value, document: &Value) -> Vec<SchemaFault> {
    let mut walk = Walk { root: schema, found: Vec::new() };
    walk.check("", schema, document);
    walk.found
}

/// A walk over a document. It calls itself for each level, of which there are few: see
/// [`super::document`].
struct Walk<'schema> {
    root: &'schema Value,
    found: Vec<SchemaFault>,
}

impl Walk<'_> {
    fn add(&mut self, path: &str, kind: FaultKind, message: String) {
        self.found.push(SchemaFault { path: path.to_owned(), message, kind });
    }

    fn check(&mut self, path: &str, schema: &Value, value: &Value) {
        if let Some(message) = wrong_type(schema, value) {
            return self.add(path, FaultKind::Unreadable, message);
        }
        if let Some(message) = beyond_limits(schema, value) {
            self.add(path, FaultKind::Limit, message);
        }
        if schema["x-kubernetes-preserve-unknown-fields"] == true {
            return;
        }
        match value {
            Value::Object(fields) => self.check_fields(path, schema, fields),
            Value::Array(items) => {
                for (position, item) in items.iter().enumerate() {
                    self.check(&format!("{path}[{position}]"), &schema["items"], item);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn check_fields(&mut self, path: &str, schema: &Value, fields: &Map<String, Value>) {
        let required = schema["required"].as_array().into_iter().flatten();
        for name in required.filter_map(Value::as_str).filter(|name| !fields.contains_key(*name)) {
            let message = "missing: it must be given".to_owned();
            self.add(&field_path(path, name), FaultKind::Unreadable, message);
        }
        let any = &schema["additionalProperties"];
        for (name, value) in fields {
            if let Some(property) = schema["properties"].get(name) {
                self.check(&field_path(path, name), property, value);
            } else if any.is_object() {
                self.check(&format!("{path}[{name}]"), any, value);
            } else if schema["properties"].is_object() {
                let path = field_path(path, name);
                let message = format!("no such field: {}", remedy(self.root, schema, &path, name));
                self.add(&path, FaultKind::Unknown, message);
            }
        }
    }
}

fn field_path(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// What is wrong with the type of `value`, if something is.
fn wrong_type(schema: &Value, value: &Value) -> Option<String> {
    if schema["x-kubernetes-int-or-string"] == true {
        let fits = value.is_string() || value.is_i64() || value.is_u64();
        return (!fits).then(|| format!("{} is neither a whole number nor text", shown(value)));
    }
    let is_map_of_any_names = schema["additionalProperties"].is_object();
    let message = match (schema["type"].as_str()?, value) {
        ("object", Value::Object(_))
        | ("array", Value::Array(_))
        | ("boolean", Value::Bool(_))
        | ("string", Value::String(_))
        | ("number", Value::Number(_)) => return None,
        ("integer", Value::Number(number)) => {
            let fits_format = |number: i64| {
                schema["format"] != "int32" || i32::try_from(number).is_ok()
            };
            if number.as_i64().is_some_and(fits_format) {
                return None;
            }
            format!("{} is no whole number of {} bits", shown(value), integer_bits(schema))
        }
        ("object", Value::Array(_)) if is_map_of_any_names => "a list, but a map is expected: write each entry as `NAME: ...` in place of `- name: NAME`".to_owned(),
        ("object", Value::Array(_)) => "a list, but a map is expected: remove the `-`".to_owned(),
        ("object", _) => format!("{} is no map: give it fields, each on a line of its own as `NAME: ...`", shown(value)),
        ("array", Value::Object(_)) => "a map, but a list is expected: start each entry with `- `".to_owned(),
        ("array", _) => format!("{} is no list: start each entry with `- `", shown(value)),
        ("string", Value::Bool(_)) => format!("{} is a boolean, but text is expected: put quotes around it (without them yes, no, on, off, y and n are booleans, too)", shown(value)),
        ("string", Value::Number(_)) => format!("{} is a number, but text is expected: put quotes around it", shown(value)),
        ("string", _) => format!("{} is no text", shown(value)),
        ("boolean", _) => format!("{} is no boolean: write true or false, without quotes", shown(value)),
        ("integer" | "number", Value::String(text)) if text.parse::<i64>().is_ok() => format!("{} is text, but a number is expected: remove the quotes", shown(value)),
        ("integer" | "number", _) => format!("{} is no number", shown(value)),
        _ => return None,
    };
    Some(message)
}

fn integer_bits(schema: &Value) -> u32 {
    if schema["format"] == "int32" { i32::BITS } else { i64::BITS }
}

/// Which limit of `schema` the value is beyond, if one.
fn beyond_limits(schema: &Value, value: &Value) -> Option<String> {
    let limit = |keyword: &str| schema[keyword].as_f64();
    let (noun, measure, least, most) = match value {
        Value::Number(number) => ("", number.as_f64()?, limit("minimum"), limit("maximum")),
        Value::String(text) => {
            (" characters", count(text.chars().count()), limit("minLength"), limit("maxLength"))
        }
        Value::Array(items) => {
            (" entries", count(items.len()), limit("minItems"), limit("maxItems"))
        }
        Value::Object(fields) => {
            (" entries", count(fields.len()), limit("minProperties"), limit("maxProperties"))
        }
        Value::Null | Value::Bool(_) => return None,
    };
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
        let allowed: Vec<String> = allowed.iter().filter(|it| *it != "").map(shown).collect();
        return Some(format!("{} is not possible: use {}", shown(value), allowed.join(", ")));
    }
    let less = least.filter(|least| measure < *least);
    let more = most.filter(|most| measure > *most);
    match (less, more) {
        (Some(least), _) => Some(format!("{measure}{noun}: give at least {least}")),
        (None, Some(most)) => Some(format!("{measure}{noun}: give at most {most}")),
        (None, None) => None,
    }
}

/// A number of things; there are never so many that it would be rounded.
fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

/// A value as it is shown in a message: as JSON, and not too long.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => "nothing".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    };
    match text.char_indices().nth(SHOWN_LIMIT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests;
