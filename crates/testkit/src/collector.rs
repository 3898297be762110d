//! The garbage collector: what nobody owns any more goes.

use super::store::Store;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Waits for those that an object owns.
const FOREGROUND: &str = "foregroundDeletion";

/// Looks at each object once.
pub(crate) fn collect(store: &mut Store) {
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
    let lost = |object: &Value| {
        let owned_by =
            object["metadata"]["ownerReferences"].as_array().filter(|all| !all.is_empty());
        owned_by.is_some_and(|all| {
            all.iter().all(|owner| !owners.contains(owner["uid"].as_str().unwrap()))
        })
    };
    for (path, _) in store.select("", lost) {
        // What goes in the foreground waits for what it owns in turn; so nothing is left out.
        let _ = store.delete(&path, &json!({ "propagationPolicy": "Background" }));
    }
    for (path, uid) in going {
        let owns = |it: &Value| {
            it["metadata"]["ownerReferences"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|it| it["uid"] == uid.as_str())
        };
        if !store.all().values().any(|it| owns(it)) {
            store.release(&path);
        }
    }
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}
