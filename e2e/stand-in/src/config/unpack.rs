//! Strict reading of tables, with the error texts of the JSON library real Flux uses.

use serde_json::{Map, Value};

/// What a key must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A string.
    Text,
    /// An integer.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// Anything, checked by whoever uses it.
    Any,
}

/// Name of a value's type in error texts.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
        Value::Number(number) if number.is_f64() => "real",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The table behind `value`.
pub(crate) fn object(value: &Value) -> Result<&Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("Expected object, got {}", type_name(value)))
}

/// Checks that every key of `known` that is present has its kind.
pub(crate) fn kinds(table: &Map<String, Value>, known: &[(&str, Kind)]) -> Result<(), String> {
    for (key, kind) in known {
        let Some(value) = table.get(*key) else { continue };
        let (fits, expected) = match kind {
            Kind::Text => (value.is_string(), "string"),
            Kind::Integer => (value.is_i64() || value.is_u64(), "integer"),
            Kind::Boolean => (value.is_boolean(), "true or false"),
            Kind::Any => (true, ""),
        };
        if !fits {
            return Err(format!("Expected {expected}, got {}", type_name(value)));
        }
    }
    Ok(())
}

/// Checks kinds and that no other key is present.
pub(crate) fn strict(table: &Map<String, Value>, known: &[(&str, Kind)]) -> Result<(), String> {
    kinds(table, known)?;
    let other: Vec<&str> = table
        .keys()
        .map(String::as_str)
        .filter(|key| known.iter().all(|(name, _)| name != key))
        .collect();
    if other.is_empty() {
        return Ok(());
    }
    Err(format!("{} object item(s) left unpacked: {}", other.len(), other.join(", ")))
}

/// The string under `key`; kinds were checked before.
pub(crate) fn text<'a>(table: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    table.get(key).and_then(Value::as_str)
}
