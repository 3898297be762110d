//! Fields that are in a document and not in the definition. The API server drops them without a
//! word unless it is asked to be strict, as kubectl does.

use crate::crd::SPECIFICATION_SCHEMA;
use serde_json::Value;

/// Fields that former versions of the API had, by how their path ends, and what took their place.
const OBSOLETE: [(&str, &str); 3] = [
    ("spec.volumes", "say in containers[].volumes where each volume comes from"),
    (".existingVolumes", "use volumes"),
    (".addCapabilities", "use capabilities.add"),
];

/// A message for each unknown field of the MiniCluster `document`.
pub(super) fn fields(document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    unknown("spec", &SPECIFICATION_SCHEMA, &document["spec"], &mut found);
    found.iter().map(|path| message(path)).collect()
}

fn message(path: &str) -> String {
    let remedy = OBSOLETE.iter().find(|(end, _)| path.ends_with(end));
    let remedy = remedy.map_or("remove it, or look for its spelling", |(_, remedy)| remedy);
    format!("{path}: no such field: {remedy}")
}

/// Adds the paths below `value` that `schema` does not know.
fn unknown(path: &str, schema: &Value, value: &Value, found: &mut Vec<String>) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    for (position, item) in value.as_array().into_iter().flatten().enumerate() {
        unknown(&format!("{path}[{position}]"), &schema["items"], item, found);
    }
    for (name, inner) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let any = &schema["additionalProperties"];
        match schema["properties"].get(name) {
            Some(schema) => unknown(&path, schema, inner, found),
            None if any.is_object() => unknown(&path, any, inner, found),
            None => found.push(path),
        }
    }
}
