//! Installs the operator with the files in `deploy/`, as a user would, and waits until it is ready.

use super::checkout;
use crate::cluster::Cluster;
use crate::programs;
use anyhow::{Context as _, Result, ensure};
use flux_api::crd::Install;
use flux_api::images::{AGENT_IMAGE, OPERATOR_IMAGE, VIEW_IMAGE};
use fs_err as fs;

/// Name of the operator's objects.
pub const NAME: &str = "flux-operator";

/// Namespace of an operator for all namespaces.
pub const NAMESPACE: &str = "flux-operator-system";

/// What differs from the files in `deploy/`: images that no registry has.
#[derive(Debug, Clone)]
pub struct Installation {
    pub operator_image: String,
    pub agent_image: String,
    /// View image where a MiniCluster names none.
    pub view_image: String,
    /// How agent and view come into the pods of MiniClusters that do not specify it.
    pub install: Option<Install>,
}

impl Installation {
    /// `deploy/operator.yaml` with these images.
    pub(crate) fn everywhere(&self) -> Result<String> {
        let mut text = operator()?;
        let install =
            |method: Install| format!("FLUX_OPERATOR_INSTALL\n          value: \"{method:?}\"");
        for (released, ours) in [
            (OPERATOR_IMAGE.to_owned(), self.operator_image.clone()),
            (AGENT_IMAGE.to_owned(), self.agent_image.clone()),
            (VIEW_IMAGE.to_owned(), self.view_image.clone()),
            (install(Install::Auto), install(self.install.unwrap_or_default())),
        ] {
            ensure!(text.contains(&released), "deploy/operator.yaml does not have {released}");
            text = text.replace(&released, &ours);
        }
        Ok(text)
    }
}

/// The CRD of MiniCluster.
pub fn definition() -> Result<String> {
    deployed("crd.yaml")
}

/// The operator as it is released.
pub fn operator() -> Result<String> {
    deployed("operator.yaml")
}

fn deployed(file: &str) -> Result<String> {
    Ok(fs::read_to_string(checkout()?.join("deploy").join(file))?)
}

/// Applies CRD and operator, and waits until the new operator is available and the former one has ended.
pub(crate) fn install(cluster: &Cluster, installation: &Installation) -> Result<()> {
    for (what, text) in [("the CRD", definition()?), ("the operator", installation.everywhere()?)] {
        cluster.apply(&text, &[]).with_context(|| format!("applying {what}"))?;
    }
    let words = ["rollout", "status", "deployment", NAME, "--namespace", NAMESPACE, "--timeout=2m"];
    programs::run(&mut cluster.kubectl(&words)).context("waiting for the operator").map(drop)
}
