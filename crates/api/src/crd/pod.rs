//! `spec.pod` and `spec.scheduling`: what all pods of a MiniCluster have in common.

use super::rules::invalid;
use k8s_openapi::api::core::v1::{PodSecurityContext, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// What all pods have in common.
#[skip_serializing_none]
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    /// Labels of the pods. The operator's own keys (`namespace`, `app`, `app.kubernetes.io/name`,
    /// `app.kubernetes.io/managed-by`, `hpa-selector`, `job-index`, `flux-framework.org/headless-name`) win
    /// over these.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// Annotations of the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,

    /// Resources requested for a pod as a whole, by resource name, where the cluster has pod-level
    /// resources. With a `runtimeClassName` they are the pod's `overhead`, and must be the class's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, Quantity>,

    /// `Never` or `OnFailure`. Default `Never`: a failed pod is reported, and replaced only as
    /// `backoffLimit` allows. `OnFailure` starts the container again in the same pod.
    #[schemars(extend("enum" = ["", "Never", "OnFailure"]))]
    pub restart_policy: Option<String>,

    /// Service account of the pods. Default: the namespace's `default`.
    pub service_account_name: Option<String>,

    /// Runtime class of the pods, e.g. `nvidia`.
    pub runtime_class_name: Option<String>,

    /// Give the pods a token of their service account. Default false.
    #[serde(default)]
    pub automount_service_account_token: bool,

    /// Scheduler of the pods, e.g. `fluence`. Default: the cluster's.
    pub scheduler_name: Option<String>,

    /// Labels a node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,

    /// Labels a node must have, each with one of several values. Not applied with
    /// `network.disableAffinity`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_affinity: BTreeMap<String, Vec<String>>,

    /// Taints the pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    #[schemars(length(max = 64))]
    pub tolerations: Vec<Toleration>,

    /// DNS policy of the pods: `ClusterFirst`, `ClusterFirstWithHostNet`, `Default` or `None`.
    /// Default: the cluster's.
    #[schemars(extend("enum" = ["", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]))]
    pub dns_policy: Option<String>,

    /// Use the IPC namespace of the node. Default false.
    #[serde(default, rename = "hostIPC")]
    pub host_ipc: bool,

    /// Use the process namespace of the node. Default false.
    #[serde(default, rename = "hostPID")]
    pub host_pid: bool,

    /// Security context of the pods, passed on whole.
    pub security_context: Option<PodSecurityContext>,

    /// Fields of the pods' PodSpec that have no field of their own here, merged in last
    /// (strategic merge: lists with a key are merged by it). Of these
    /// `terminationGracePeriodSeconds`, the same as `flux.drainSeconds`, is what a stop may take: jobs, the
    /// archive's dump and `commands.post` share it. Fields that would take Flux's host names or processes from
    /// it, as `hostNetwork`, are refused.
    #[serde(default)]
    #[schemars(schema_with = "any_object")]
    pub overlay: Option<serde_json::Value>,
}

fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// How the pods are placed together.
#[skip_serializing_none]
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = invalid(".topology", "!has(self.topology) || self.gang == 'Native' || self.gang == 'Auto'",
        "topology is for PodGroups of scheduling.k8s.io: set gang to Native or Auto, or remove topology")
)]
pub struct Scheduling {
    /// Whether the pods get nodes together or not at all: `minSize` of them, or `size` where there is none. The
    /// operator makes the PodGroup that a scheduler reads.
    /// - `None`: each pod gets a node by itself. A queue of Kueue needs no PodGroup.
    /// - `Native`: that of Kubernetes' own scheduler (`scheduling.k8s.io`), from Kubernetes 1.37 on, where it is
    ///   switched on.
    /// - `PodGroup`: that of scheduler-plugins (coscheduling) or Volcano, whichever the cluster has.
    ///   `pod.schedulerName` names the scheduler, unless it is the cluster's default one or `volcano`.
    /// - `Auto`: `Native` where the cluster has it, else `PodGroup`, else `None`, which the condition `Accepted`
    ///   reports.
    ///
    /// If the cluster lacks `Native` or `PodGroup`, nothing is created, and the condition `Progressing` reports it.
    /// Default `None`.
    #[serde(default)]
    pub gang: Gang,

    /// Label of nodes, e.g. `topology.kubernetes.io/rack`: the pods of the gang get nodes of which all have the same
    /// value of it. With `gang: Native` or `Auto`, where the cluster's feature `TopologyAwareWorkloadScheduling` is on.
    /// Default: any nodes.
    #[schemars(length(min = 1))]
    pub topology: Option<String>,
}

/// Whether pods are placed together or not at all.
#[derive(JsonSchema, Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gang {
    /// Each pod by itself.
    #[default]
    None,
    /// As members of the first PodGroup that the cluster has, in the order below, or each by itself.
    Auto,
    /// As members of a PodGroup of Kubernetes' own scheduler.
    Native,
    /// As members of a PodGroup of scheduler-plugins or Volcano.
    PodGroup,
}
