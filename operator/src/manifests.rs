//! The manifests that install the operator, as typed objects.
//!
//! `deploy/` holds what [`files`] gives for an operator that serves all namespaces; a test compares
//! the two.

mod installation;
mod rbac;
mod workload;

use crate::crd::definition::{DefinitionError, definition};
use installation::labels;
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use rbac::{cluster_role_binding, role_binding, user_roles};
use serde::Serialize;
use workload::service_account;

pub use installation::{AGENT_IMAGE, Installation, NAME, NAMESPACE, OPERATOR_IMAGE};
pub use rbac::{cluster_role, role};
pub use workload::{deployment, metrics_service};

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

/// The files that install an operator: name and text.
///
/// `crd.yaml` is the API: the definition and the roles of those who use it. It has to be there first
/// and outlives an operator. An operator for one namespace comes without it, and with nothing else
/// that is not in that namespace: a tenant may apply it.
pub fn files(installation: &Installation) -> Result<Vec<(String, String)>, ManifestError> {
    let operator = file("operator.yaml", &operator(installation)?);
    if installation.only.is_some() {
        return Ok(vec![operator]);
    }
    let definition = definition().map_err(|source| ManifestError::Definition { source })?;
    let mut api = vec![document("CustomResourceDefinition", &definition)?];
    for role in user_roles() {
        api.push(document("ClusterRole", &role)?);
    }
    Ok(vec![file("crd.yaml", &api), operator])
}

fn operator(installation: &Installation) -> Result<Vec<String>, ManifestError> {
    let mut documents = Vec::new();
    if installation.only.is_none() {
        documents.push(document("Namespace", &namespace())?);
    }
    documents.push(document("ServiceAccount", &service_account(installation))?);
    if installation.only.is_none() {
        documents.push(document("ClusterRole", &cluster_role())?);
        documents.push(document("ClusterRoleBinding", &cluster_role_binding())?);
    }
    documents.push(document("Role", &role(installation))?);
    documents.push(document("RoleBinding", &role_binding(installation))?);
    documents.push(document("Deployment", &deployment(installation))?);
    documents.push(document("Service", &metrics_service(installation))?);
    Ok(documents)
}

/// The operator's namespace; nothing in it may run with more rights than it needs.
fn namespace() -> Namespace {
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

fn document(kind: &'static str, object: &impl Serialize) -> Result<String, ManifestError> {
    serde_saphyr::to_string(object).map_err(|source| ManifestError::Write { kind, source })
}

fn file(name: &str, documents: &[String]) -> (String, String) {
    let documents: Vec<String> =
        documents.iter().map(|document| format!("{}\n", document.trim_end())).collect();
    (name.to_owned(), format!("{HEADER}---\n{}", documents.join("---\n")))
}
