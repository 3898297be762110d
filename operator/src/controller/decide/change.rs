//! What is done with one object, as a value.

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
    /// It gets a merge patch, which names its uid and the resource version that was read: no other
    /// object that has got its name since is written to, and no other version.
    Patch {
        name: String,
        patch: Value,
    },
    /// It is deleted, and no other that has its name, nor another version.
    Delete {
        name: String,
        uid: Option<String>,
        version: Option<String>,
    },
}

impl<K: Resource + Serialize> Change<K> {
    /// From `live`, if there is one, to `desired`: nothing is written where `live` says all of it.
    pub(crate) fn between(live: Option<&K>, desired: K) -> Self {
        let Some(live) = live else { return Self::Create(Box::new(desired)) };
        Self::merge(live, to_value(&desired))
    }

    /// Merges `desired` into `live`, unless `live` says all of it. Owners that others have added stay.
    pub(crate) fn merge(live: &K, mut desired: Value) -> Self {
        if let Some(owners) = desired.pointer_mut("/metadata/ownerReferences") {
            *owners = with_other_owners(owners, live.owner_references());
        }
        if is_subset(&desired, &to_value(live)) { Self::Keep } else { Self::patch(live, desired) }
    }

    pub(crate) fn patch(live: &K, mut patch: Value) -> Self {
        patch["metadata"]["uid"] = json!(live.uid());
        patch["metadata"]["resourceVersion"] = json!(live.resource_version());
        Self::Patch { name: live.name_any(), patch }
    }

    /// Deletes `live`, unless somebody does already.
    pub(crate) fn delete(live: &K) -> Self {
        if live.meta().deletion_timestamp.is_some() {
            return Self::Keep;
        }
        Self::Delete { name: live.name_any(), uid: live.uid(), version: live.resource_version() }
    }
}

impl Change<Service> {
    /// From `live`, if there is one, to `desired`, whose selector is a whole: a key that somebody adds takes the
    /// pods away from the Service. A headless Service that others share stays as the first of them has made it.
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

    /// The same for a Service with a short name, which somebody may want: one that reaches other pods or ports than
    /// `desired` is left to whoever has changed it.
    pub(crate) fn of_alias(live: Option<&Service>, desired: Service) -> Self {
        match live {
            Some(live) if !reach_the_same(live, &desired) => Self::disown(live),
            live => Self::of_service(live, desired),
        }
    }

    /// What becomes of `live` at the end of a run with `all` these Services: it is deleted, unless it has a short name
    /// and reaches other pods or ports than the Service with the long one.
    pub(crate) fn end_of_service(live: &Service, all: &BTreeMap<String, Service>) -> Self {
        let cluster = live.labels().get(labels::NAME).map_or("", String::as_str);
        let long = all.get(&format!("{cluster}-{}", live.name_any()));
        if long.is_some_and(|long| !reach_the_same(live, long)) {
            return Self::disown(live);
        }
        Self::delete(live)
    }

    /// Gives `live` up: it is neither changed nor deleted any more, also not with its MiniCluster.
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

/// The owners `live`, with `ours` in the place of what is there of them. A merge patch replaces the whole list.
fn with_other_owners(ours: &Value, live: &[OwnerReference]) -> Value {
    let mut owners: Vec<Value> = live.iter().map(|owner| json!(owner)).collect();
    for our in ours.as_array().into_iter().flatten() {
        match owners.iter_mut().find(|owner| owner["uid"] == our["uid"]) {
            Some(place) => place.clone_from(our),
            None => owners.push(our.clone()),
        }
    }
    Value::Array(owners)
}

fn to_value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// True when everything `desired` says is also said by `live`, which may say more.
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
    fn a_foreign_key_in_a_selector_is_removed() {
        let service = |selector: &Value| -> Service {
            serde_json::from_value(json!({ "spec": { "selector": selector } })).unwrap()
        };
        let desired = || service(&json!({ "job": "hello" }));
        let live = service(&json!({ "job": "hello", "more": "x" }));
        let Change::Patch { patch, .. } = Change::of_service(Some(&live), desired()) else {
            panic!()
        };
        assert_eq!(patch["spec"]["selector"], json!({ "job": "hello", "more": null }));
        assert_eq!(Change::of_service(Some(&desired()), desired()), Change::Keep);
    }

    #[test]
    fn additions_of_the_api_server_are_no_difference() {
        let live = json!({ "data": { "a": "1" }, "list": [1, 2], "ports": [{ "port": 1, "protocol": "TCP" }] });
        for (desired, is_said) in [
            (json!({ "ports": [{ "port": 1 }] }), true),
            (json!({ "data": { "a": "2" } }), false),
            (json!({ "data": { "b": "1" } }), false),
            (json!({ "data": { "b": null } }), true),
            (json!({ "list": [1] }), false),
        ] {
            assert_eq!(is_subset(&desired, &live), is_said, "{desired}");
        }
    }
}
