//! The objects of an installation, each once: what all formats write.

use super::ManifestError;
use super::installation::{Installation, NAMESPACE, global, labels};
use super::options::{network_policy, pod_disruption_budget, service_monitor};
use super::rbac::{
    cluster_role, cluster_role_binding, leader_role, leader_role_binding, role, role_binding,
    user_roles,
};
use super::workload::{deployment, metrics_service, service_account};
use crate::crd::definition::definition;
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Serialize;

/// What an object belongs to: a file, in most formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The definition of MiniCluster. It has to be there first, and outlives an operator.
    Definition,
    /// Roles of those who use MiniClusters.
    UserRoles,
    /// The operator's namespace.
    Namespace,
    /// What the operator may do in all namespaces.
    ClusterRole,
    /// What the operator may do in the only namespace that it serves.
    Role,
    /// The operator.
    Operator,
    /// `--pod-disruption-budget`.
    PodDisruptionBudget,
    /// `--network-policy`.
    NetworkPolicy,
    /// `--service-monitor`.
    ServiceMonitor,
}

impl Part {
    /// Its name in names of files.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Definition => "crd",
            Self::UserRoles => "user-roles",
            Self::Namespace => "namespace",
            Self::ClusterRole => "cluster-role",
            Self::Role => "role",
            Self::Operator => "operator",
            Self::PodDisruptionBudget => "pod-disruption-budget",
            Self::NetworkPolicy => "network-policy",
            Self::ServiceMonitor => "service-monitor",
        }
    }
}

/// An object as YAML.
#[derive(Debug)]
pub(super) struct Object {
    /// What it belongs to.
    pub(super) part: Part,
    text: String,
}

/// The objects of `installation`, in the order in which they are applied. An operator for one namespace
/// comes with nothing that is not in a namespace: a tenant may apply it.
pub(super) fn objects(installation: &Installation) -> Result<Vec<Object>, ManifestError> {
    let own = installation.own_namespace();
    let mut list = match &installation.watch_namespace {
        None => everywhere(installation)?,
        Some(watched) => vec![
            object(Part::Role, &role(watched))?,
            object(Part::Role, &role_binding(watched, own))?,
        ],
    };
    list.extend([
        object(Part::Operator, &service_account(installation))?,
        object(Part::Operator, &leader_role(own))?,
        object(Part::Operator, &leader_role_binding(own))?,
        object(Part::Operator, &deployment(installation))?,
        object(Part::Operator, &metrics_service(installation))?,
    ]);
    if installation.pod_disruption_budget {
        list.push(object(Part::PodDisruptionBudget, &pod_disruption_budget(installation))?);
    }
    if installation.network_policy {
        list.push(object(Part::NetworkPolicy, &network_policy(installation))?);
    }
    if installation.service_monitor {
        list.push(object(Part::ServiceMonitor, &service_monitor(installation))?);
    }
    Ok(list)
}

/// What an operator that serves all namespaces has, and one for a single namespace has not.
fn everywhere(installation: &Installation) -> Result<Vec<Object>, ManifestError> {
    let definition = definition().map_err(|source| ManifestError::Definition { source })?;
    let mut list = vec![object(Part::Definition, &definition)?];
    for role in user_roles() {
        list.push(object(Part::UserRoles, &role)?);
    }
    // One that the user names has an owner already, and other objects in it.
    if installation.namespace.is_none() {
        list.push(object(Part::Namespace, &namespace())?);
    }
    list.push(object(Part::ClusterRole, &cluster_role())?);
    list.push(object(Part::ClusterRole, &cluster_role_binding(installation.own_namespace()))?);
    Ok(list)
}

/// The documents of these parts.
pub(super) fn documents(objects: &[Object], parts: &[Part]) -> String {
    let of_parts = objects.iter().filter(|object| parts.contains(&object.part));
    let texts: Vec<String> =
        of_parts.map(|object| format!("---\n{}\n", object.text.trim_end())).collect();
    texts.concat()
}

/// The operator's namespace; nothing in it may run with more rights than it needs.
fn namespace() -> Namespace {
    let level =
        |mode: &str| (format!("pod-security.kubernetes.io/{mode}"), "restricted".to_owned());
    let mut labels = labels();
    labels.extend(["enforce", "audit", "warn"].map(level));
    Namespace {
        metadata: ObjectMeta { labels: Some(labels), ..global(NAMESPACE) },
        ..Namespace::default()
    }
}

fn object(part: Part, object: &impl Serialize) -> Result<Object, ManifestError> {
    let text = serde_saphyr::to_string(object);
    let text = text.map_err(|source| ManifestError::Write { part: part.name(), source })?;
    Ok(Object { part, text })
}
