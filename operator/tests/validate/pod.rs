//! What all pods have in common.

use crate::{faults, good};
use serde_json::json;

#[test]
fn pod_values_kubernetes_would_refuse_are_refused_with_their_place() {
    for (change, path) in [
        (json!({ "restartPolicy": "Always" }), "restartPolicy"),
        (json!({ "dnsPolicy": "Mine" }), "dnsPolicy"),
        (json!({ "serviceAccountName": "A" }), "serviceAccountName"),
        (json!({ "labels": { "a b": "" } }), "labels[a b]"),
        (json!({ "labels": { "a": "b c" } }), "labels[a]"),
        (json!({ "nodeSelector": { "a": "b c" } }), "nodeSelector[a]"),
        (json!({ "annotations": { "": "x" } }), "annotations[]"),
        (json!({ "nodeAffinity": { "a": [] } }), "nodeAffinity[a]"),
        (json!({ "resources": { "cpu": "x" } }), "resources[cpu]"),
        (json!({ "tolerations": [{ "operator": "Like", "key": "a" }] }), "tolerations[0].operator"),
        (json!({ "tolerations": [{ "key": "a", "effect": "Never" }] }), "tolerations[0].effect"),
        (json!({ "tolerations": [{}] }), "tolerations[0].key"),
        (
            json!({ "tolerations": [{ "operator": "Exists", "value": "a" }] }),
            "tolerations[0].value",
        ),
        (
            json!({ "tolerations": [{ "key": "a", "tolerationSeconds": 5 }] }),
            "tolerations[0].tolerationSeconds",
        ),
        (json!({ "overlay": { "containers": "none" } }), "overlay"),
    ] {
        let text = change.to_string();
        assert_eq!(faults(json!({ "pod": change })), [format!("spec.pod.{path}")], "{text}");
    }
    let change = json!({ "shareProcessNamespace": true, "pod": { "hostPID": true } });
    assert_eq!(faults(change), ["spec.pod.hostPID"]);
}

#[test]
fn node_affinity_asks_for_one_of_the_values_unless_affinity_is_off() {
    let pod = json!({ "nodeAffinity": { "zone": ["a", "b"] } });
    let affinity = good(json!({ "pod": pod })).pod.node_affinity.unwrap();
    let terms = affinity.required_during_scheduling_ignored_during_execution.unwrap();
    let requirement = terms.node_selector_terms[0].match_expressions.as_ref().unwrap()[0].clone();
    assert_eq!((requirement.key.as_str(), requirement.operator.as_str()), ("zone", "In"));
    let cluster = good(json!({ "pod": pod, "network": { "disableAffinity": true } }));
    assert_eq!((cluster.pod.node_affinity, cluster.network.affinity), (None, false));
}
