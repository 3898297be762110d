//! The change of one object, as a value.

use flux_contract::labels;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Change<K> {
    #[default]
    Keep,
    Create(Box<K>),
    /// A merge patch with the uid and the resource version that were read, so that it fails for any other object.
    Patch {
        name: String,
        patch: Value,
    },
    /// A deletion with uid and resource version as preconditions.
    Delete {
        name: String,
        uid: Option<String>,
        version: Option<String>,
    },
}

impl<K: Resource + Serialize> Change<K> {
    /// Creates `desired`, or patches `live` if it lacks something of `desired`.
    pub(crate) fn between(live: Option<&K>, desired: K) -> Self {
        let Some(live) = live else { return Self::Create(Box::new(desired)) };
        Self::merge(live, to_value(&desired))
    }

    /// Merges `desired` into `live` if `live` lacks something of it. Owners that others have added stay.
    pub(crate) fn merge(live: &K, mut desired: Value) -> Self {
        add_other_owners(&mut desired, live.owner_references());
        if is_subset(&desired, &to_value(live)) { Self::Keep } else { Self::patch(live, desired) }
    }

    /// Merges `desired` into `live` even if `live` lacks nothing of it.
    pub(crate) fn overwrite(live: &K, mut desired: Value) -> Self {
        add_other_owners(&mut desired, live.owner_references());
        Self::patch(live, desired)
    }

    pub(crate) fn patch(live: &K, mut patch: Value) -> Self {
        patch["metadata"]["uid"] = json!(live.uid());
        patch["metadata"]["resourceVersion"] = json!(live.resource_version());
        Self::Patch { name: live.name_any(), patch }
    }

    pub(crate) fn delete(live: &K) -> Self {
        if live.meta().deletion_timestamp.is_some() {
            return Self::Keep;
        }
        Self::Delete { name: live.name_any(), uid: live.uid(), version: live.resource_version() }
    }
}

impl Change<Service> {
    /// Like [`Self::between`], but removes foreign keys from the selector, which would exclude our pods. A shared
    /// headless Service keeps the specification that its first owner has created.
    pub(crate) fn of_service(live: Option<&Service>, mut desired: Service) -> Self {
        let Some(live) = live else { return Self::Create(Box::new(desired)) };
        let is_other =
            |it: &OwnerReference| !desired.owner_references().iter().any(|our| our.uid == it.uid);
        let is_shared = desired.labels().contains_key(labels::HEADLESS_NAME);
        if is_shared && live.owner_references().iter().any(is_other) {
            desired.spec.clone_from(&live.spec);
        }
        let mut desired = to_value(&desired);
        let selector = live.spec.iter().flat_map(|spec| spec.selector.iter().flatten());
        for (key, _) in selector {
            if desired["spec"]["selector"].get(key).is_none() {
                desired["spec"]["selector"][key] = Value::Null;
            }
        }
        Self::merge(live, desired)
    }

    /// Like [`Self::of_service`] for an alias. An alias that somebody has changed to other pods or ports is disowned.
    pub(crate) fn of_alias(live: Option<&Service>, desired: Service) -> Self {
        match live {
            Some(live) if !reach_the_same(live, &desired) => Self::disown(live),
            live => Self::of_service(live, desired),
        }
    }

    /// Deletes `live` at the end of a run, or disowns it if it is an alias that reaches other pods or ports than the
    /// Service with the long name in `all`.
    pub(crate) fn end_of_service(live: &Service, all: &BTreeMap<String, Service>) -> Self {
        let cluster = live.labels().get(labels::NAME).map_or("", String::as_str);
        let long = all.get(&format!("{cluster}-{}", live.name_any()));
        if long.is_some_and(|long| !reach_the_same(live, long)) {
            return Self::disown(live);
        }
        Self::delete(live)
    }

    /// Removes our ownership of `live`, so that it is never changed or deleted again, not even with its MiniCluster.
    fn disown(live: &Service) -> Self {
        let others = live.owner_references().iter().filter(|owner| owner.controller != Some(true));
        let owners: Vec<&OwnerReference> = others.collect();
        let labels = json!({ labels::MANAGED_BY: null });
        Self::patch(live, json!({ "metadata": { "ownerReferences": owners, "labels": labels } }))
    }
}

fn reach_the_same(one: &Service, other: &Service) -> bool {
    let [one, other] = [one, other].map(|it| it.spec.clone().unwrap_or_default());
    let ports = |spec: &ServiceSpec| -> Vec<_> {
        let ports = spec.ports.iter().flatten();
        ports.map(|it| (it.port, it.target_port.clone())).collect()
    };
    one.selector == other.selector && ports(&one) == ports(&other)
}

/// Adds the owners `live` to those of `desired`, because a merge patch replaces the whole list.
fn add_other_owners(desired: &mut Value, live: &[OwnerReference]) {
    let Some(ours) = desired.pointer_mut("/metadata/ownerReferences") else { return };
    let mut owners: Vec<Value> = live.iter().map(|owner| json!(owner)).collect();
    for our in ours.as_array().into_iter().flatten() {
        match owners.iter_mut().find(|owner| owner["uid"] == our["uid"]) {
            Some(place) => place.clone_from(our),
            None => owners.push(our.clone()),
        }
    }
    *ours = Value::Array(owners);
}

fn to_value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

fn is_subset(desired: &Value, live: &Value) -> bool {
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => desired.iter().all(|(key, desired)| {
            live.get(key).map_or_else(|| desired.is_null(), |live| is_subset(desired, live))
        }),
        (Value::Array(desired), Value::Array(live)) => {
            desired.len() == live.len()
                && desired.iter().zip(live).all(|(desired, live)| is_subset(desired, live))
        }
        (desired, live) => desired == live,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additions_of_the_api_server_are_no_difference() {
        let live = json!({ "data": { "a": "1" }, "list": [1, 2], "ports": [{ "port": 1, "protocol": "TCP" }] });
        for (desired, is_in_live) in [
            (json!({ "ports": [{ "port": 1 }] }), true),
            (json!({ "data": { "a": "2" } }), false),
            (json!({ "data": { "b": "1" } }), false),
            (json!({ "data": { "b": null } }), true),
            (json!({ "list": [1] }), false),
        ] {
            assert_eq!(is_subset(&desired, &live), is_in_live, "{desired}");
        }
    }
}
