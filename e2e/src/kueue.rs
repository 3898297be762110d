//! Kueue on a cluster: what queues Jobs until there is quota for them. Built from its Go module, and installed by
//! its own chart.

use anyhow::Result;

use crate::{
    cache::Cache,
    environment::Environment,
    kubernetes::{KUEUE_VERSION, helm, kueue},
    product::images::load_program,
    programs,
    progress::Progress,
};

/// Name of the image, without its tag.
const IMAGE: &str = "localhost/flux-e2e/kueue";

/// Values of the chart. It asks for half a processor, which a small cluster needs for other pods.
const VALUES: [&str; 2] = ["image.pullPolicy=IfNotPresent", "resources.requests.cpu=50m"];

/// How long Kueue may take to start. It writes the certificate of its webhooks into a Secret and looks for that in
/// its volume after pauses that double (`ensureCertsMounted` of `open-policy-agent/cert-controller`). The kubelet
/// brings it at once or a minute later, and what is missed by a look is found up to two minutes after it.
const PATIENCE: &str = "--timeout=10m";

/// Installs Kueue, and waits until it runs.
pub fn install(environment: &Environment, progress: &Progress) -> Result<()> {
    let cluster = &environment.cluster;
    let cache = Cache::locate()?;
    let (helm, built) = (helm(&cache, progress)?, kueue(&cache, progress)?);
    let image = format!("{IMAGE}:{KUEUE_VERSION}");
    progress.step("loading Kueue", || {
        load_program(cluster, &image, "/manager", &built.join("kueue"))
    })?;
    let mut command = cluster.program(&helm);
    command.args(["upgrade", "--install", "kueue"]).arg(built.join("chart"));
    command.args(["--namespace=kueue-system", "--create-namespace", "--wait", PATIENCE]);
    let image = [format!("image.repository={IMAGE}"), format!("image.tag={KUEUE_VERSION}")];
    for value in VALUES.map(str::to_owned).into_iter().chain(image) {
        command.arg("--set").arg(format!("controllerManager.manager.{value}"));
    }
    progress.step("installing Kueue", || programs::run(&mut command).map(drop))
}
