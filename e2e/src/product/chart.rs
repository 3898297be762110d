//! The chart in `deploy/chart`, and the files in `deploy/` that are rendered from it, for those who have no helm.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use super::{
    checkout,
    install::{NAME, NAMESPACE},
    printed,
};
use crate::{
    cache::Cache,
    kubernetes::{KubernetesVersion, go_programs},
    programs,
    progress::Progress,
};

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

/// The chart and the program that renders it.
#[derive(Debug)]
pub struct Chart {
    helm: PathBuf,
    directory: PathBuf,
}

impl Chart {
    /// The chart of this checkout; helm is built if it is not there yet.
    pub fn of_checkout(progress: &Progress) -> Result<Self> {
        let helm = go_programs("helm", &Cache::locate()?, progress)?.join("helm");
        Ok(Self { helm, directory: checkout()?.join("deploy/chart") })
    }

    /// The program helm.
    pub fn helm(&self) -> &Path {
        &self.helm
    }

    /// Checks the chart as its authors would.
    pub fn lint(&self) -> Result<()> {
        let mut lint = Command::new(&self.helm);
        lint.args(["lint", "--strict", &oldest_kubernetes()]).arg(&self.directory);
        programs::run(&mut lint).context("checking the chart").map(|_| ())
    }

    /// What `helm template` prints with these arguments, for an operator in `namespace`.
    pub fn render(&self, namespace: &str, arguments: &[&str]) -> Result<String> {
        let mut template = Command::new(&self.helm);
        template.args(["template", NAME, "--namespace", namespace, &oldest_kubernetes()]);
        printed(template.arg(&self.directory).args(arguments))
    }

    /// The rendered files: path and text.
    fn rendered(&self) -> Result<Vec<(PathBuf, String)>> {
        let deploy = checkout()?.join("deploy");
        let file = |(name, arguments): (&str, &[&str])| {
            let text = self.render(NAMESPACE, arguments);
            Ok((deploy.join(name), format!("{HEADER}{}", text.context(name.to_owned())?)))
        };
        RENDERED.into_iter().map(file).collect()
    }

    /// Writes the rendered files.
    pub fn write_rendered(&self) -> Result<()> {
        for (path, text) in self.rendered()? {
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }

    /// Fails where a rendered file is not what the chart says.
    pub fn check_rendered(&self) -> Result<()> {
        for (path, expected) in self.rendered()? {
            let text = fs::read_to_string(&path).unwrap_or_default();
            ensure!(
                text == expected,
                "{} is not what deploy/chart says: run `cargo e2e manifests`",
                path.display()
            );
        }
        Ok(())
    }
}

/// What the chart is for at least: the first release of the oldest version that is tested.
fn oldest_kubernetes() -> String {
    format!("--kube-version={}.0", KubernetesVersion::all()[0])
}
