//! The chart, as helm reads it: it is a good one, it says what the manifests say, and it refuses wrong values.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use flux_operator::{
    crd::Install,
    manifests::{Format, ImageNames, Installation, NAME, NAMESPACE},
};

use crate::{
    cache::Cache,
    kubernetes::{KubernetesVersion, helm},
    product::{
        checkout,
        packaging::{plain, same_objects, write},
    },
    programs,
    progress::Progress,
};

/// Values that are none, as `--set` takes them.
const WRONG: [&str; 4] =
    ["watchNamespace=Not_A_Name", "install=Sometimes", "viewImage=", "nosuchvalue=1"];

/// Checks the chart in `deploy/`, and those of other options.
pub(super) fn check(progress: &Progress) -> Result<()> {
    let helm = helm(&Cache::locate()?, progress)?;
    let chart = checkout()?.join("deploy/helm/flux-operator");
    let mut lint = Command::new(&helm);
    lint.args(["lint", "--strict", &oldest_kubernetes()]).arg(&chart);
    programs::run(&mut lint).context("checking the chart")?;
    says_the_same(&helm, &chart, &in_namespace(NAMESPACE))?;
    for installation in installations() {
        let chart = tempfile::tempdir().context("making a directory for a chart")?;
        write(Format::Helm, &installation, chart.path())?;
        says_the_same(&helm, chart.path(), &installation)
            .with_context(|| format!("the chart of {installation:?}"))?;
    }
    for wrong in WRONG {
        let refused = programs::run(template(&helm, &chart, NAMESPACE).args(["--set", wrong]));
        ensure!(refused.is_err(), "the chart takes the value {wrong}");
    }
    Ok(())
}

/// An installation for all namespaces in a namespace that is there: Helm makes it if it is asked to.
fn in_namespace(namespace: &str) -> Installation {
    Installation { namespace: Some(namespace.to_owned()), ..Installation::default() }
}

/// One with every option, one for a single namespace, and one for another namespace than its own.
fn installations() -> [Installation; 3] {
    let everything = Installation {
        images: ImageNames {
            registry: Some("registry.example:5000/flux".to_owned()),
            operator_image: "ghcr.io/somebody/flux-operator-rs:1".to_owned(),
            agent_image: "registry.example/agent:1".to_owned(),
            ..ImageNames::default()
        },
        image_pull_secrets: vec!["login".to_owned(), "other-login".to_owned()],
        install: Some(Install::Copy),
        pod_disruption_budget: true,
        network_policy: true,
        service_monitor: true,
        ..in_namespace("123")
    };
    let serving = |namespace: &str| Installation {
        watch_namespace: Some(namespace.to_owned()),
        ..in_namespace("team")
    };
    [everything, serving("team"), serving("other-team")]
}

/// Fails where helm makes other objects of the chart than there are in the manifests.
fn says_the_same(helm: &Path, chart: &Path, installation: &Installation) -> Result<()> {
    let mut command = template(helm, chart, installation.own_namespace());
    if installation.watch_namespace.is_none() {
        command.arg("--include-crds");
    }
    let output = programs::run(&mut command)?;
    same_objects(&plain(installation)?, &String::from_utf8_lossy(&output.stdout))
}

/// What the chart is for at least: the first release of the oldest version that is tested.
fn oldest_kubernetes() -> String {
    format!("--kube-version={}.0", KubernetesVersion::all()[0])
}

fn template(helm: &Path, chart: &Path, namespace: &str) -> Command {
    let mut command = Command::new(helm);
    command.args(["template", NAME, "--namespace", namespace]).arg(oldest_kubernetes()).arg(chart);
    command
}
