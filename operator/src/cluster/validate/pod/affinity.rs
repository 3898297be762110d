//! Where the pods have to be, and where they would rather be.

use crate::crd::MiniClusterSpec;
use flux_contract::labels;
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodAffinity,
    PodAffinityTerm, PodAntiAffinity, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

const ZONE: &str = "topology.kubernetes.io/zone";
const NODE: &str = "kubernetes.io/hostname";

/// Together in one zone and apart on the nodes, as preferences; the user's node affinity as a requirement.
/// None of it with `network.disableAffinity`.
pub(super) fn affinity(name: &str, spec: &MiniClusterSpec) -> Option<Affinity> {
    (!spec.network.disable_affinity).then(|| Affinity {
        node_affinity: node_affinity(spec),
        pod_affinity: Some(PodAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![near(name, ZONE)]),
            ..PodAffinity::default()
        }),
        pod_anti_affinity: Some(PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![near(name, NODE)]),
            ..PodAntiAffinity::default()
        }),
    })
}

fn node_affinity(spec: &MiniClusterSpec) -> Option<NodeAffinity> {
    let requirement = |(key, values): (&String, &Vec<String>)| NodeSelectorRequirement {
        key: key.clone(),
        operator: "In".to_owned(),
        values: Some(values.clone()),
    };
    let requirements: Vec<_> = spec.pod.node_affinity.iter().map(requirement).collect();
    (!requirements.is_empty()).then(|| NodeAffinity {
        required_during_scheduling_ignored_during_execution: Some(NodeSelector {
            node_selector_terms: vec![NodeSelectorTerm {
                match_expressions: Some(requirements),
                match_fields: None,
            }],
        }),
        ..NodeAffinity::default()
    })
}

/// The pods of the MiniCluster `name`, compared by the nodes' label `topology`.
fn near(name: &str, topology: &str) -> WeightedPodAffinityTerm {
    WeightedPodAffinityTerm {
        weight: 100,
        pod_affinity_term: PodAffinityTerm {
            topology_key: topology.to_owned(),
            label_selector: Some(LabelSelector {
                match_expressions: Some(vec![LabelSelectorRequirement {
                    key: labels::NAME.to_owned(),
                    operator: "In".to_owned(),
                    values: Some(vec![name.to_owned()]),
                }]),
                ..LabelSelector::default()
            }),
            ..PodAffinityTerm::default()
        },
    }
}
