//! The chart in `deploy/chart`, and the files in `deploy/` that are rendered from it, for those who have no helm.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::{
    checkout,
    install::{NAME, NAMESPACE},
    printed,
};
use crate::{
    cache::Cache,
    kubernetes::{KubernetesVersion, helm},
    progress::Progress,
};

const DIRECTORY: &str = "deploy/chart";

/// First line of a rendered file.
const HEADER: &str = "# Rendered from deploy/chart by `cargo e2e manifests`: change the chart.\n";

/// The rendered files below `deploy/`, with the arguments of `helm template`.
const RENDERED: [(&str, &[&str]); 6] = [
    ("operator.yaml", &["--set=createNamespace=true"]),
    ("one-namespace/operator.yaml", &["--set=watchNamespace=flux-operator-system"]),
    ("user-roles.yaml", &["--show-only=templates/user-roles.yaml"]),
    (
        "components/network-policy/network-policy.yaml",
        &["--show-only=templates/network-policy.yaml", "--set=networkPolicy.enabled=true"],
    ),
    (
        "components/pod-disruption-budget/pod-disruption-budget.yaml",
        &[
            "--show-only=templates/pod-disruption-budget.yaml",
            "--set=podDisruptionBudget.enabled=true,replicas=2",
        ],
    ),
    (
        "components/service-monitor/service-monitor.yaml",
        &["--show-only=templates/service-monitor.yaml", "--set=serviceMonitor.enabled=true"],
    ),
];

/// The program that renders the chart.
#[derive(Debug)]
pub(crate) struct Chart {
    helm: PathBuf,
}

impl Chart {
    /// The chart of this checkout; helm is built if it is not there yet.
    pub(crate) fn of_checkout(progress: &Progress) -> Result<Self> {
        Ok(Self { helm: helm(&Cache::locate()?, progress)? })
    }

    /// Checks the chart as its authors would.
    pub(crate) fn lint(&self) -> Result<()> {
        self.helm(&["lint", DIRECTORY, "--strict"]).context("checking the chart").map(drop)
    }

    /// What `helm template` prints with these arguments, for an operator in `namespace`.
    pub(crate) fn render(&self, namespace: &str, arguments: &[&str]) -> Result<String> {
        let words = ["template", NAME, DIRECTORY, "--namespace", namespace];
        self.helm(&[&words[..], arguments].concat())
    }

    /// What helm prints, for the first release of the oldest Kubernetes that is tested.
    fn helm(&self, words: &[&str]) -> Result<String> {
        let oldest = format!("--kube-version={}.0", KubernetesVersion::all()[0]);
        printed(Command::new(&self.helm).args(words).arg(oldest).current_dir(checkout()?))
    }

    /// Does `work` with the path and the text of each rendered file.
    pub(crate) fn each_rendered(&self, work: impl Fn(&Path, String) -> Result<()>) -> Result<()> {
        let deploy = checkout()?.join("deploy");
        RENDERED.into_iter().try_for_each(|(name, arguments)| {
            let text = self.render(NAMESPACE, arguments).with_context(|| name.to_owned())?;
            work(&deploy.join(name), format!("{HEADER}{text}"))
        })
    }
}
