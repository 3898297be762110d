//! The two kinds of patches that the operator sends: merge patches of objects, and the server-side
//! apply of a status.

use serde_json::Value;

/// Merges `patch` into `object` (RFC 7396).
pub(crate) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(serde_json::Map::new());
    }
    for (key, value) in patch {
        if value.is_null() {
            object.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut object[key], value);
        }
    }
}

/// Applies `wanted` to `live` as the manager whose last word was `last`: what it says no more goes,
/// what others have set stays. Conditions are a map by their type, other lists are one value each.
pub(crate) fn apply(live: &mut Value, last: &Value, wanted: &Value) {
    let Value::Object(fields) = wanted else {
        *live = wanted.clone();
        return;
    };
    if !live.is_object() {
        *live = Value::Object(serde_json::Map::new());
    }
    let gone = last.as_object().into_iter().flatten();
    for (key, _) in gone.filter(|(key, _)| !fields.contains_key(*key)) {
        live.as_object_mut().unwrap().remove(key);
    }
    for (key, value) in fields {
        if key == "conditions" {
            apply_conditions(&mut live[key], &last[key], value);
        } else {
            apply(&mut live[key], &last[key], value);
        }
    }
}

fn apply_conditions(live: &mut Value, last: &Value, wanted: &Value) {
    let of_type = |list: &Value, type_: &Value| {
        list.as_array().into_iter().flatten().any(|condition| condition["type"] == *type_)
    };
    let mut result: Vec<Value> = wanted.as_array().cloned().unwrap_or_default();
    let others = live.as_array().into_iter().flatten().filter(|condition| {
        !of_type(wanted, &condition["type"]) && !of_type(last, &condition["type"])
    });
    result.extend(others.cloned());
    *live = Value::Array(result);
}
