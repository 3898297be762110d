//! Paths of fields in a document.

use serde_json::Value;

/// The path of a field, and what was changed or what differs.
pub(super) type FieldNote = (String, String);

/// The pointer (RFC 6901) to the field at `path`, e.g. `spec.containers[0].commands.pre`. Names with dots do not occur
/// among the fields that are corrected or removed.
pub(super) fn pointer(path: &str) -> String {
    let parts = path.split(['.', '[', ']']).filter(|part| !part.is_empty());
    parts.flat_map(|part| ["/", part]).collect()
}

pub(super) fn mentions(value: &Value, word: &str) -> bool {
    match value {
        Value::String(text) => text.contains(word),
        Value::Array(items) => items.iter().any(|item| mentions(item, word)),
        Value::Object(fields) => fields.values().any(|field| mentions(field, word)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

pub(super) fn containers(specification: &Value) -> impl Iterator<Item = (String, &Value)> {
    ["containers", "services"].into_iter().flat_map(|list| {
        let all = specification[list].as_array().into_iter().flatten().enumerate();
        all.map(move |(index, container)| (format!("spec.{list}[{index}]"), container))
    })
}
