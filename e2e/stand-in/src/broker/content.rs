//! Dumps: what real Flux keeps in its content store, in a form of our own.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::failure::strerror;

/// Marks a dump as ours.
const FORMAT: &str = "flux stand-in dump";

/// Writes a dump.
pub(crate) fn write(path: &str, content: &Value) -> Result<(), String> {
    let document = json!({ "format": FORMAT, "content": content });
    std::fs::write(path, document.to_string())
        .map_err(|error| format!("{path}: {}", strerror(&error)))
}

/// Reads a dump back; one that is missing is skipped.
pub(crate) fn read(path: &str) -> Result<Option<Value>, String> {
    let fault = |error: &io::Error| format!("{path}: {}", strerror(error));
    if !Path::new(path).try_exists().map_err(|error| fault(&error))? {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path).map_err(|error| fault(&error))?;
    let document: Value = serde_json::from_str(&text).unwrap_or_default();
    if document["format"] != FORMAT {
        return Err(format!("{path}: not a dump of the stand-in: not simulated"));
    }
    Ok(Some(document["content"].clone()))
}
