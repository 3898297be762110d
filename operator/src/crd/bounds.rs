//! How much a user may write: decided here, once, for every field there is and will be.
//!
//! The limits go into the definition, where the API server and the estimated costs of its rules
//! need them, and [`exceeded`] holds a specification against them again, because an object may
//! have been stored before a limit existed. docs/design/operator.md says why they are what they are.

use serde_json::{Map, Value, json};

/// Most characters of a name, a path, an image, a quantity, a line of options: what Linux takes for
/// a path (`PATH_MAX`).
const LINE_LIMIT: u64 = 4_096;

/// Most characters of a script, a document or the value of a variable: half of what Linux takes for
/// one argument or variable (`MAX_ARG_STRLEN`).
const TEXT_LIMIT: u64 = 65_536;

/// Most elements of a list that says nothing else.
const LIST_LIMIT: u64 = 64;

/// Most entries of a map that says nothing else.
const MAP_LIMIT: u64 = 256;

/// Most characters of a map's key: those of an annotation, the longest of Kubernetes. A schema has no
/// word for it.
const KEY_LIMIT: u64 = 317;

/// Most bytes of a whole specification as JSON: what `kubectl apply` can carry, which keeps it in an
/// annotation. What is made of a specification of this size fits an object of Kubernetes.
pub const SPECIFICATION_LIMIT: usize = 262_144;

/// Fields that hold a script or a document, and maps whose values do.
const TEXTS: [&str; 17] = [
    "annotations",
    "brokerConfig",
    "brokerPre",
    "command",
    "environment",
    "hostlist",
    "init",
    "post",
    "postStartExec",
    "pre",
    "preBroker",
    "preCommand",
    "preStopExec",
    "preWorker",
    "script",
    "servicePre",
    "workerPre",
];

/// Gives `schema`, that of the field `name`, and each schema in it, the limits that it does not have.
pub(super) fn bound(name: &str, schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    let is_text = TEXTS.contains(&name);
    match fields.get("type").and_then(Value::as_str) {
        Some("array") => limit(fields, "maxItems", LIST_LIMIT),
        Some("object") if !fields.contains_key("properties") => {
            limit(fields, "maxProperties", MAP_LIMIT);
        }
        Some("string") if !fields.contains_key("enum") => {
            limit(fields, "maxLength", if is_text { TEXT_LIMIT } else { LINE_LIMIT });
        }
        None if fields.contains_key("x-kubernetes-int-or-string") => {
            limit(fields, "maxLength", LINE_LIMIT);
        }
        Some(_) | None => {}
    }
    let properties = fields.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        bound(name, property);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(inner) {
            bound(name, inner);
        }
    }
}

fn limit(schema: &mut Map<String, Value>, keyword: &str, limit: u64) {
    schema.entry(keyword).or_insert_with(|| json!(limit));
}

/// Where something has more than is allowed: path and message.
type Excess = (String, String);

/// Where `value`, of the field at `path`, has more than `schema` allows.
///
/// It goes no deeper than the schema does, whatever the value is.
pub(crate) fn exceeded(path: &str, schema: &Value, value: &Value) -> Vec<Excess> {
    let mut found = Vec::new();
    collect(path, schema, value, &mut found);
    found
}

fn collect(path: &str, schema: &Value, value: &Value, found: &mut Vec<Excess>) {
    match value {
        _ if !schema.is_object() => {}
        Value::String(text) => {
            found.extend(excess(path, text.chars().count(), &schema["maxLength"], "characters"));
        }
        Value::Array(elements) => {
            found.extend(excess(path, elements.len(), &schema["maxItems"], "elements"));
            for (position, element) in elements.iter().enumerate() {
                collect(&format!("{path}[{position}]"), &schema["items"], element, found);
            }
        }
        Value::Object(entries) => {
            found.extend(excess(path, entries.len(), &schema["maxProperties"], "entries"));
            let entry_schema = &schema["additionalProperties"];
            for (key, entry) in entries {
                if entry_schema.is_object() {
                    let path = format!("{path}[{key}]");
                    let characters = key.chars().count();
                    found.extend(excess(
                        &path,
                        characters,
                        &json!(KEY_LIMIT),
                        "characters in its key",
                    ));
                    collect(&path, entry_schema, entry, found);
                } else {
                    collect(&format!("{path}.{key}"), &schema["properties"][key], entry, found);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A message where `count` is above `limit`, if there is a limit.
fn excess(path: &str, count: usize, limit: &Value, unit: &str) -> Option<Excess> {
    let limit = limit.as_u64()?;
    let is_more = u64::try_from(count).is_ok_and(|count| count > limit);
    is_more.then(|| (path.to_owned(), format!("has {count} {unit}, at most {limit} are allowed: put long texts into a ConfigMap and mount it")))
}
