//! The manifests that install the operator, as typed objects.
//!
//! `deploy/` holds what [`files`] gives; a test compares the two.

mod rbac;
mod workload;

use crate::crd::{self, DefinitionError};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Serialize;
use std::collections::BTreeMap;

pub use rbac::{cluster_role, cluster_role_binding, role, role_binding, user_roles};
pub use workload::{deployment, metrics_service, service_account};

/// Namespace of the operator.
pub const NAMESPACE: &str = "flux-operator-system";

/// Name of the operator's objects.
pub const NAME: &str = "flux-operator";

/// The operator image of this release.
pub const OPERATOR_IMAGE: &str =
    concat!("ghcr.io/flux-framework/flux-operator:v", env!("CARGO_PKG_VERSION"));

/// The agent image of this release: operator and agent are of one release.
pub const AGENT_IMAGE: &str =
    concat!("ghcr.io/flux-framework/flux-agent:v", env!("CARGO_PKG_VERSION"));

/// First line of each file.
const HEADER: &str = "# Written by `flux-operator manifests`; changes here are lost.\n";

/// Why the manifests cannot be written down.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The definition of MiniCluster.
    #[error("make the CustomResourceDefinition")]
    Definition {
        /// Why.
        #[source]
        source: DefinitionError,
    },
    /// An object YAML cannot express.
    #[error("write {kind} as YAML")]
    Write {
        /// Kind of the object.
        kind: &'static str,
        /// Why.
        #[source]
        source: serde_saphyr::ser::Error,
    },
}

/// The files of `deploy/`: name and text.
///
/// `crd.yaml` is a file of its own, because it has to be there first and outlives an operator.
pub fn files() -> Result<Vec<(String, String)>, ManifestError> {
    let definition = crd::definition().map_err(|source| ManifestError::Definition { source })?;
    let mut operator = vec![
        document("Namespace", &namespace())?,
        document("ServiceAccount", &service_account())?,
        document("ClusterRole", &cluster_role())?,
        document("ClusterRoleBinding", &cluster_role_binding())?,
        document("Role", &role())?,
        document("RoleBinding", &role_binding())?,
    ];
    for role in user_roles() {
        operator.push(document("ClusterRole", &role)?);
    }
    operator.push(document("Deployment", &deployment())?);
    operator.push(document("Service", &metrics_service())?);
    Ok(vec![
        file("crd.yaml", &[document("CustomResourceDefinition", &definition)?]),
        file("operator.yaml", &operator),
    ])
}

/// The operator's namespace; nothing in it may run with more rights than it needs.
pub fn namespace() -> Namespace {
    let level =
        |mode: &str| (format!("pod-security.kubernetes.io/{mode}"), "restricted".to_owned());
    let mut labels = labels();
    labels.extend(["enforce", "audit", "warn"].map(level));
    Namespace {
        metadata: ObjectMeta {
            name: Some(NAMESPACE.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }
}

/// Labels of the operator's own objects. Not those of what it makes for a MiniCluster.
fn labels() -> BTreeMap<String, String> {
    let pairs = [("app.kubernetes.io/name", NAME), ("app.kubernetes.io/component", "operator")];
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// Metadata of an object called `name` in the operator's namespace.
fn namespaced(name: &str) -> ObjectMeta {
    ObjectMeta { namespace: Some(NAMESPACE.to_owned()), ..global(name) }
}

/// Metadata of an object called `name` that is in no namespace.
fn global(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), labels: Some(labels()), ..ObjectMeta::default() }
}

fn document(kind: &'static str, object: &impl Serialize) -> Result<String, ManifestError> {
    serde_saphyr::to_string(object).map_err(|source| ManifestError::Write { kind, source })
}

fn file(name: &str, documents: &[String]) -> (String, String) {
    let documents: Vec<String> =
        documents.iter().map(|document| format!("{}\n", document.trim_end())).collect();
    (name.to_owned(), format!("{HEADER}---\n{}", documents.join("---\n")))
}
