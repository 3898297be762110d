//! The garbage collector: it deletes objects whose owners are all gone.

use super::store::Store;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Keeps an object until those that it owns are gone.
const FOREGROUND: &str = "foregroundDeletion";

/// Looks at each object once.
pub fn collect(store: &mut Store) {
    let mut owners = BTreeSet::new();
    let mut going = Vec::new();
    for (path, object) in store.all() {
        let finalizers = object["metadata"]["finalizers"].as_array();
        if finalizers.is_some_and(|all| all.iter().any(|it| it == FOREGROUND)) {
            going.push((path.clone(), uid(object).to_owned()));
        } else {
            owners.insert(uid(object));
        }
    }
    let is_orphan = |object: &Value| {
        let mut owned_by = owners_of(object).peekable();
        owned_by.peek().is_some()
            && owned_by.all(|owner| !owners.contains(owner["uid"].as_str().unwrap()))
    };
    for (path, _) in store.select("", is_orphan) {
        // An object that is deleted in the foreground waits for those that it owns in turn: no deletion is left out.
        let _ = store.delete(&path, &json!({ "propagationPolicy": "Background" }));
    }
    for (path, uid) in going {
        let owns = |object: &Value| owners_of(object).any(|owner| owner["uid"] == uid.as_str());
        if !store.all().values().any(|it| owns(it)) {
            store.release(&path);
        }
    }
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn owners_of(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}
