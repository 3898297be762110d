//! The manifests that install the operator, as typed objects.
//!
//! `deploy/` holds what [`files`] gives for an operator that serves all namespaces; a test compares
//! the two.

mod rbac;
mod workload;

use crate::crd::{self, DefinitionError, Install};
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

/// How an operator is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The only namespace that the operator sees, and lives in. Otherwise it serves all of them, and
    /// lives in [`NAMESPACE`].
    pub only: Option<String>,
    /// Image of the operator.
    pub operator_image: String,
    /// Image that holds the agent.
    pub agent_image: String,
    /// View image where a MiniCluster names none; the operator's default unless given.
    pub view_image: Option<String>,
    /// How agent and view come into pods where a MiniCluster does not say; the operator's default
    /// unless given.
    pub install: Option<Install>,
}

impl Default for Installation {
    fn default() -> Self {
        Self {
            only: None,
            operator_image: OPERATOR_IMAGE.to_owned(),
            agent_image: AGENT_IMAGE.to_owned(),
            view_image: None,
            install: None,
        }
    }
}

impl Installation {
    /// The namespace that the operator lives in.
    pub fn namespace(&self) -> &str {
        self.only.as_deref().unwrap_or(NAMESPACE)
    }

    /// Metadata of an object called `name` in the operator's namespace.
    fn namespaced(&self, name: &str) -> ObjectMeta {
        ObjectMeta { namespace: Some(self.namespace().to_owned()), ..global(name) }
    }
}

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
    let definition = crd::definition().map_err(|source| ManifestError::Definition { source })?;
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
