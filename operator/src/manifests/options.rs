//! What an operator has beside it only if that is asked for.

use super::installation::{Installation, NAME, labels};
use super::workload::METRICS;
use k8s_openapi::{
    api::{
        networking::v1::{
            NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
            NetworkPolicySpec,
        },
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};
use serde_json::{Value, json};

/// Keeps one of the two operators while a node is drained.
pub(super) fn pod_disruption_budget(installation: &Installation) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: installation.own(NAME),
        spec: Some(PodDisruptionBudgetSpec {
            min_available: Some(IntOrString::Int(1)),
            selector: Some(selector()),
            // A pod that is not ready does not act: its eviction costs nothing.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    }
}

/// Lets pods of the cluster ask for the metrics, and nobody for anything else. The kubelet's probes come
/// from the pod's node, which a policy does not concern. What the operator connects to stays free: no
/// policy can name the API server, whose address and port differ from cluster to cluster.
pub(super) fn network_policy(installation: &Installation) -> NetworkPolicy {
    let (name, _) = METRICS;
    let any_pod = NetworkPolicyPeer {
        namespace_selector: Some(LabelSelector::default()),
        ..NetworkPolicyPeer::default()
    };
    let metrics = NetworkPolicyPort {
        port: Some(IntOrString::String(name.to_owned())),
        protocol: Some("TCP".to_owned()),
        end_port: None,
    };
    NetworkPolicy {
        metadata: installation.own(NAME),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(selector()),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(vec![NetworkPolicyIngressRule {
                from: Some(vec![any_pod]),
                ports: Some(vec![metrics]),
            }]),
            egress: None,
        }),
    }
}

/// Tells the Prometheus Operator where the metrics are.
pub(super) fn service_monitor(installation: &Installation) -> Value {
    let (port, _) = METRICS;
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": installation.own(NAME),
        "spec": {
            "selector": { "matchLabels": labels() },
            "endpoints": [{ "port": port }],
        },
    })
}

fn selector() -> LabelSelector {
    LabelSelector { match_labels: Some(labels()), ..LabelSelector::default() }
}
