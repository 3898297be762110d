//! How an operator is installed: where, and of which images.

use crate::crd::Install;
use clap::Args;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

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
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Installation {
    /// Install into this namespace an operator that serves and sees only this one, with Roles alone.
    /// The definition of MiniCluster is for an administrator to apply: `flux-operator crd`
    #[arg(long = "namespace", value_name = "NAMESPACE")]
    pub only: Option<String>,
    /// Image of the operator
    #[arg(long, value_name = "IMAGE", default_value = OPERATOR_IMAGE)]
    pub operator_image: String,
    /// Image that holds the agent
    #[arg(long, value_name = "IMAGE", default_value = AGENT_IMAGE)]
    pub agent_image: String,
    /// View image where a MiniCluster names none; the operator's default unless given
    #[arg(long, value_name = "IMAGE")]
    pub view_image: Option<String>,
    /// How agent and view come into the pods where a MiniCluster does not say. An operator for one
    /// namespace may not list nodes: it copies unless this says `Image`
    #[arg(long, value_name = "METHOD", value_enum, ignore_case = true)]
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
    /// The namespace that the operator lives in: its only one, or [`NAMESPACE`].
    pub fn namespace(&self) -> &str {
        self.only.as_deref().unwrap_or(NAMESPACE)
    }

    /// Metadata of an object called `name` in the operator's namespace.
    pub(super) fn namespaced(&self, name: &str) -> ObjectMeta {
        ObjectMeta { namespace: Some(self.namespace().to_owned()), ..global(name) }
    }
}

/// Labels of the operator's own objects. Not those of what it makes for a MiniCluster.
pub(super) fn labels() -> BTreeMap<String, String> {
    let pairs = [("app.kubernetes.io/name", NAME), ("app.kubernetes.io/component", "operator")];
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// Metadata of an object called `name` that is in no namespace.
pub(super) fn global(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), labels: Some(labels()), ..ObjectMeta::default() }
}
