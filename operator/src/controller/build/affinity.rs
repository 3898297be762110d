//! Where the pods would rather be.

use crate::cluster::Cluster;
use flux_contract::labels;
use k8s_openapi::api::core::v1::{
    Affinity, PodAffinity, PodAffinityTerm, PodAntiAffinity, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

const ZONE: &str = "topology.kubernetes.io/zone";
const NODE: &str = "kubernetes.io/hostname";

/// Together in one zone and apart on the nodes, as preferences; the user's node affinity as a
/// requirement, also where `network.disableAffinity` removes the preferences.
pub(super) fn affinity(cluster: &Cluster) -> Option<Affinity> {
    let node_affinity = cluster.pod.node_affinity.clone();
    if !cluster.network.affinity {
        return node_affinity
            .map(|node| Affinity { node_affinity: Some(node), ..Affinity::default() });
    }
    Some(Affinity {
        node_affinity,
        pod_affinity: Some(PodAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![near(cluster, ZONE)]),
            ..PodAffinity::default()
        }),
        pod_anti_affinity: Some(PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![near(cluster, NODE)]),
            ..PodAntiAffinity::default()
        }),
    })
}

/// The pods of this MiniCluster, compared by the nodes' label `topology`.
fn near(cluster: &Cluster, topology: &str) -> WeightedPodAffinityTerm {
    WeightedPodAffinityTerm {
        weight: 100,
        pod_affinity_term: PodAffinityTerm {
            topology_key: topology.to_owned(),
            label_selector: Some(LabelSelector {
                match_expressions: Some(vec![LabelSelectorRequirement {
                    key: labels::NAME.to_owned(),
                    operator: "In".to_owned(),
                    values: Some(vec![cluster.name.to_string()]),
                }]),
                ..LabelSelector::default()
            }),
            ..PodAffinityTerm::default()
        },
    }
}
