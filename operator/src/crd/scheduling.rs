//! `spec.scheduling`: how the pods are placed together.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the pods are placed together.
#[derive(KubeSchema, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scheduling {
    /// `PodGroup`: the pods get nodes together or not at all. The operator makes the PodGroup that
    /// scheduler-plugins (coscheduling) or Volcano read, whichever the cluster has, with `minSize` members, or
    /// `size` where there is none; without either, nothing is made, and the condition `Progressing` says so.
    /// `pod.schedulerName` names the scheduler, unless it is the cluster's default one or `volcano`. `None`: each
    /// pod gets a node by itself. A queue of Kueue needs no PodGroup. Default `None`.
    #[serde(default)]
    pub gang: Gang,
}

/// Whether pods are placed together or not at all.
#[derive(JsonSchema, Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gang {
    /// Each pod by itself.
    #[default]
    None,
    /// As members of one PodGroup.
    PodGroup,
}
