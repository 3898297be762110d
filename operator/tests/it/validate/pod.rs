//! What all pods have in common.

use crate::validate::good;
use serde_json::json;

#[test]
fn what_kubernetes_checks_itself_is_left_to_the_api_server() {
    let tolerations =
        json!([{ "key": "a", "operator": "Gt", "value": "5", "effect": "NoExecute" }]);
    let resources = json!({ "limits": { "cpu": "1/2" } });
    let container = json!({ "image": "Ubuntu:24.04", "resources": resources });
    let cluster = good(json!({
        "pod": { "tolerations": tolerations, "labels": { "a b": "" }, "dnsPolicy": "Mine" },
        "containers": [container],
    }));
    assert_eq!(json!(cluster.pod.spec.tolerations), tolerations);
    assert_eq!(cluster.pod.spec.dns_policy.as_deref(), Some("Mine"));
    assert_eq!(json!(cluster.runner.container.resources), resources);
}

#[test]
fn node_affinity_asks_for_one_of_the_values_unless_affinity_is_off() {
    let pod = json!({ "nodeAffinity": { "zone": ["a", "b"] } });
    let affinity = good(json!({ "pod": pod })).pod.spec.affinity.unwrap().node_affinity.unwrap();
    let terms = affinity.required_during_scheduling_ignored_during_execution.unwrap();
    let requirement = terms.node_selector_terms[0].match_expressions.as_ref().unwrap()[0].clone();
    assert_eq!((requirement.key.as_str(), requirement.operator.as_str()), ("zone", "In"));
    let cluster = good(json!({ "pod": pod, "network": { "disableAffinity": true } }));
    assert_eq!(cluster.pod.spec.affinity, None);
}

#[test]
fn the_grace_period_is_that_of_drain_seconds_or_the_overlay_or_kubernetes_own() {
    assert_eq!(good(json!({})).pod.grace_seconds, 30);
    for seconds in [0, 1, 600] {
        let overlay = json!({ "terminationGracePeriodSeconds": seconds });
        let cluster = good(json!({ "pod": { "overlay": overlay.clone() } }));
        assert_eq!(cluster.pod.grace_seconds, seconds);
        let both = json!({ "flux": { "drainSeconds": seconds }, "pod": { "overlay": overlay } });
        assert_eq!(good(both).pod.grace_seconds, seconds);
        let cluster = good(json!({ "flux": { "drainSeconds": seconds } }));
        assert_eq!(cluster.pod.grace_seconds, seconds);
    }
}

#[test]
fn an_overlay_may_bring_what_is_not_ours() {
    good(json!({ "pod": { "overlay": {
        "hostNetwork": false,
        "priorityClassName": "batch",
        "initContainers": [{ "name": "wait", "image": "a", "command": ["wait"] }],
    } } }));
}

#[test]
fn a_deadline_that_was_given_is_the_agents_unless_containers_are_started_again() {
    assert!(!good(json!({})).deadline_by_agent);
    assert!(good(json!({ "deadlineSeconds": 60 })).deadline_by_agent);
    let restarted = json!({ "deadlineSeconds": 60, "pod": { "restartPolicy": "OnFailure" } });
    assert!(!good(restarted).deadline_by_agent);
}
