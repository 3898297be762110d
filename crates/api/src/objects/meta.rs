//! Names, labels and owners of a MiniCluster's objects.

use crate::cluster::{Cluster, Identity};
use flux_contract::{ClusterName, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use std::collections::BTreeMap;

/// Metadata of the object `name` of a MiniCluster.
pub(super) fn object_meta(cluster: &Cluster, name: &str) -> ObjectMeta {
    meta_of(&cluster.identity(), name)
}

/// Metadata of the object `name` of the MiniCluster `identity`, whose specification may be invalid.
pub fn meta_of(identity: &Identity, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(identity.namespace.clone()),
        labels: Some(object_labels(&identity.name)),
        owner_references: Some(vec![identity.owner.clone()]),
        ..ObjectMeta::default()
    }
}

/// Labels of every object and pod; the operator's watches select by them.
pub(super) fn object_labels(name: &ClusterName) -> BTreeMap<String, String> {
    owned([(labels::NAME, name.as_str()), (labels::MANAGED_BY, labels::MANAGED_BY_VALUE)])
}

/// Labels of the pods: the user's, and the operator's, which win; no `job-index`, which is not the same for all pods.
pub(super) fn pod_labels(cluster: &Cluster) -> BTreeMap<String, String> {
    let mut all = cluster.pod.labels.clone();
    all.remove(labels::JOB_INDEX);
    all.extend(owned([
        (labels::NAMESPACE, cluster.namespace.as_str()),
        (labels::APP, labels::APP_VALUE),
        (labels::NAME, cluster.name.as_str()),
        (labels::HPA_SELECTOR, cluster.name.as_str()),
        (labels::MANAGED_BY, labels::MANAGED_BY_VALUE),
    ]));
    if cluster.shares_headless_service() {
        all.extend(headless_label(cluster));
    }
    all
}

/// Label of the pods of all MiniClusters with this headless Service.
pub(super) fn headless_label(cluster: &Cluster) -> BTreeMap<String, String> {
    owned([(labels::HEADLESS_NAME, cluster.headless_name.as_str())])
}

/// Metadata of a shared headless Service, which is deleted with its last owner.
pub(super) fn shared_meta(cluster: &Cluster) -> ObjectMeta {
    let mut labels = headless_label(cluster);
    labels.extend(owned([(labels::MANAGED_BY, labels::MANAGED_BY_VALUE)]));
    let owner =
        OwnerReference { controller: None, block_owner_deletion: None, ..cluster.owner.clone() };
    ObjectMeta {
        labels: Some(labels),
        owner_references: Some(vec![owner]),
        ..object_meta(cluster, &cluster.headless_name)
    }
}

/// Labels of the pod of `spec.services`: those of the Job's pods without the label by which autoscalers count brokers.
pub(super) fn services_pod_labels(cluster: &Cluster) -> BTreeMap<String, String> {
    let mut all = pod_labels(cluster);
    all.remove(labels::HPA_SELECTOR);
    all.insert(labels::JOB_INDEX.to_owned(), labels::SERVICES_INDEX.to_owned());
    all
}

/// Selects the pods of the Job, by a label that the Job controller sets.
pub(super) fn job_selector(cluster: &Cluster) -> BTreeMap<String, String> {
    owned([(labels::JOB_NAME, cluster.name.as_str())])
}

pub(super) fn lead_selector(cluster: &Cluster) -> BTreeMap<String, String> {
    first_of_each(job_selector(cluster))
}

/// `selector`, limited to pods with index 0.
pub(super) fn first_of_each(mut selector: BTreeMap<String, String>) -> BTreeMap<String, String> {
    selector.extend(owned([(labels::COMPLETION_INDEX, "0")]));
    selector
}

fn owned<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}
