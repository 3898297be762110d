//! `spec.autoscale`: a size by what the queue needs.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Between which sizes the operator goes by what the queue needs.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Autoscale {
    /// Least number of pods. With 0 a MiniCluster that no job needs is suspended, until `kubectl flux submit`, or a
    /// new value of its annotation `flux-framework.org/resume`, starts it again; it has to be `interactive`, and needs
    /// an `archive` that keeps its jobs. Default 1.
    #[serde(default = "super::one")]
    #[schemars(range(min = 0, max = 100_000))]
    pub min_size: i32,

    /// Largest number of pods. A job that needs more gets none.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_size: i32,

    /// How long, in seconds, no job must have needed a pod before it goes. Default 60.
    #[serde(default = "idle_seconds")]
    #[schemars(range(min = 1, max = 31_500_000))]
    pub idle_seconds: i32,
}

/// As long as the autoscaler of `KubeRay` waits (`idleTimeoutSeconds` of its `autoscalerOptions`).
const fn idle_seconds() -> i32 {
    60
}
