//! Size limits of all fields of a specification.
//!
//! The limits are in the definition, where the cost estimates of its rules need them. The operator checks them again,
//! because an object may have been stored before a limit existed. docs/design/operator.md explains the values.

use serde_json::{Map, Value, json};

/// Most characters of a name, an image or a line of options: the longest path of Linux (`PATH_MAX`).
const LINE_LIMIT: u64 = 4_096;

/// Most characters of a script or a document: half of the longest argument of Linux (`MAX_ARG_STRLEN`).
const TEXT_LIMIT: u64 = 65_536;

const LIST_LIMIT: u64 = 64;

const MAP_LIMIT: u64 = 256;

/// Most characters of a map's key, as for an annotation. A schema cannot express this limit.
const KEY_LIMIT: u64 = 317;

/// Most bytes of a whole specification as JSON: `kubectl apply` keeps it in an annotation of at most this size. The
/// objects of such a specification fit the limit of Kubernetes.
pub const SPECIFICATION_LIMIT: usize = 262_144;

/// Fields, and maps of fields, that contain a script or a document.
const TEXTS: &str = "annotations brokerConfig brokerPre command environment hostlist init post postStartExec pre \
     preBroker preCommand preStopExec preWorker script servicePre workerPre";

/// Adds missing limits to `schema`, the schema of the field `name`.
pub(super) fn bound(name: &str, schema: &mut Map<String, Value>) {
    let is_text = TEXTS.split(' ').any(|text| text == name);
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => limit(schema, "maxItems", LIST_LIMIT),
        Some("object") if !schema.contains_key("properties") => {
            limit(schema, "maxProperties", MAP_LIMIT);
        }
        Some("string") if !schema.contains_key("enum") => {
            limit(schema, "maxLength", if is_text { TEXT_LIMIT } else { LINE_LIMIT });
        }
        None if schema.contains_key("x-kubernetes-int-or-string") => {
            limit(schema, "maxLength", LINE_LIMIT);
        }
        Some(_) | None => {}
    }
}

fn limit(schema: &mut Map<String, Value>, keyword: &str, limit: u64) {
    schema.entry(keyword).or_insert_with(|| json!(limit));
}

/// Checks a value; returns a message if it breaks the schema.
type Check = fn(schema: &Value, value: &Value) -> Option<String>;

/// Path and message of each value in `specification` that fails `check`.
pub(crate) fn broken(schema: &Value, specification: &Value, check: Check) -> Vec<(String, String)> {
    let mut found = Vec::new();
    walk("spec", schema, specification, check, &mut found);
    found
}

/// Checks `value` and the values in it, no deeper than the schema.
fn walk(
    path: &str,
    schema: &Value,
    value: &Value,
    check: Check,
    found: &mut Vec<(String, String)>,
) {
    if !schema.is_object() {
        return;
    }
    found.extend(check(schema, value).map(|message| (path.to_owned(), message)));
    for (position, element) in value.as_array().into_iter().flatten().enumerate() {
        walk(&format!("{path}[{position}]"), &schema["items"], element, check, found);
    }
    for (key, entry) in value.as_object().into_iter().flatten() {
        let of_entries = &schema["additionalProperties"];
        if of_entries.is_object() {
            walk(&format!("{path}[{key}]"), of_entries, entry, check, found);
        } else {
            walk(&format!("{path}.{key}"), &schema["properties"][key], entry, check, found);
        }
    }
}

pub(crate) fn too_large(schema: &Value, value: &Value) -> Option<String> {
    let (count, limit, unit) = match value {
        Value::String(text) => (text.chars().count(), schema["maxLength"].as_u64(), "characters"),
        Value::Array(elements) => (elements.len(), schema["maxItems"].as_u64(), "elements"),
        Value::Object(entries) => {
            let is_map = schema["additionalProperties"].is_object();
            let longest = entries.keys().map(|key| key.chars().count()).max().unwrap_or_default();
            if is_map && exceeds(longest, KEY_LIMIT) {
                (longest, Some(KEY_LIMIT), "characters in a key")
            } else {
                (entries.len(), schema["maxProperties"].as_u64(), "entries")
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => return None,
    };
    let limit = limit.filter(|limit| exceeds(count, *limit))?;
    Some(format!(
        "has {count} {unit}, at most {limit} are allowed: put long texts into a ConfigMap and mount it"
    ))
}

fn exceeds(count: usize, limit: u64) -> bool {
    u64::try_from(count).is_ok_and(|count| count > limit)
}

pub(crate) fn out_of_range(schema: &Value, value: &Value) -> Option<String> {
    let limit = |keyword: &str| schema[keyword].as_f64();
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
        let allowed = allowed.iter().filter_map(Value::as_str).filter(|value| !value.is_empty());
        let allowed: Vec<&str> = allowed.collect();
        return Some(format!("{value} is not possible: use one of {}", allowed.join(", ")));
    }
    let (least, most) = (limit("minimum"), limit("maximum"));
    match value {
        Value::Number(number) => {
            let number = number.as_f64()?;
            let is_less = least.is_some_and(|least| number < least);
            let is_more = most.is_some_and(|most| number > most);
            let remedy = match (least, most) {
                (Some(least), Some(most)) => format!("{least} to {most}"),
                (Some(least), None) => format!("at least {least}"),
                (None, most) => format!("at most {}", most.unwrap_or_default()),
            };
            (is_less || is_more).then(|| format!("{number} is out of range: give {remedy}"))
        }
        Value::String(text) if text.is_empty() && schema["minLength"].is_number() => {
            Some("empty: give a value, or leave it out".to_owned())
        }
        // Arguments and environments of programs cannot contain NUL.
        Value::String(text) if text.contains('\0') => {
            Some("contains the character NUL: remove it".to_owned())
        }
        Value::Array(elements) if elements.is_empty() && schema["minItems"].is_number() => {
            Some("empty: give at least one".to_owned())
        }
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    }
}
