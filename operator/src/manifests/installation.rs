//! How an operator is installed: where, of which images, and with what beside it.

use super::images::ImageNames;
use crate::crd::Install;
use clap::{Args, ValueEnum};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

/// Namespace of the operator.
pub const NAMESPACE: &str = "flux-operator-system";

/// Name of the operator's objects.
pub const NAME: &str = "flux-operator";

/// Which tool installs the operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// `kubectl apply -f`: crd.yaml and operator.yaml.
    #[default]
    Plain,
    /// `kubectl apply -k`: directories for an operator of each kind, and one for each option.
    Kustomize,
    /// `helm install`: a chart whose default values are these options.
    Helm,
}

/// How an operator is installed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Installation {
    /// Namespace of the operator, which has to exist. Unless given, it is that of --watch-namespace,
    /// or `flux-operator-system`, which the manifests then make
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Serve and see this namespace only, with Roles alone. An administrator applies the CRD of
    /// MiniCluster. Such an operator may not list nodes: it copies agent and view unless it is told to
    /// mount their images
    #[arg(long, value_name = "NAMESPACE")]
    pub watch_namespace: Option<String>,
    /// The images.
    #[command(flatten)]
    pub images: ImageNames,
    /// Secret in the operator's namespace by which the operator's image is pulled; there may be
    /// several. MiniClusters have their own
    #[arg(long = "image-pull-secret", value_name = "NAME")]
    pub image_pull_secrets: Vec<String>,
    /// How agent and view come into the pods where a MiniCluster does not say: `Auto` mounts their
    /// images where the cluster is known to be able to, and copies elsewhere
    #[arg(long, value_name = "METHOD", value_enum, ignore_case = true)]
    pub install: Option<Install>,
    /// Run a second operator, which stands by, and keep one of them while nodes are drained
    #[arg(long)]
    pub pod_disruption_budget: bool,
    /// Let nobody connect to the operator's pods but pods of the cluster, and those to the port of the
    /// metrics only
    #[arg(long)]
    pub network_policy: bool,
    /// Let the Prometheus Operator collect the metrics; its CRD of `ServiceMonitor` has to be there
    #[arg(long)]
    pub service_monitor: bool,
}

impl Installation {
    /// The namespace that the operator lives in.
    pub fn own_namespace(&self) -> &str {
        self.namespace.as_deref().or(self.watch_namespace.as_deref()).unwrap_or(NAMESPACE)
    }

    /// Metadata of an object called `name` in the operator's namespace.
    pub(super) fn own(&self, name: &str) -> ObjectMeta {
        namespaced(name, self.own_namespace())
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

/// Metadata of an object called `name` in `namespace`.
pub(super) fn namespaced(name: &str, namespace: &str) -> ObjectMeta {
    ObjectMeta { namespace: Some(namespace.to_owned()), ..global(name) }
}
