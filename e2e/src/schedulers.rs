//! What pods of MiniClusters may be queued and placed by, built from its Go module and installed in a cluster: Kueue,
//! which queues Jobs until there is quota for them, and the plugin coscheduling of scheduler-plugins, which gives nodes
//! to the pods of a group together or not at all.

use crate::cache::Cache;
use crate::environment::Environment;
use crate::kubernetes::{KUEUE_VERSION, SCHEDULER_PLUGINS_VERSION, go_programs};
use crate::product::images::load_program;
use crate::programs;
use crate::progress::Progress;
use anyhow::Result;
use fs_err as fs;

/// What pods name to be placed by scheduler-plugins.
pub const SCHEDULER: &str = "scheduler-plugins-scheduler";

/// Values of Kueue's chart. It asks for half a processor, which a small cluster needs for other pods.
const KUEUE_VALUES: [&str; 2] = ["image.pullPolicy=IfNotPresent", "resources.requests.cpu=50m"];

/// Kueue's feature by which the number of pods of a Job can change in a queue. It is off in releases before 0.18
/// (`pkg/features/kube_features.go`).
const KUEUE_FEATURE: &str = "ElasticJobsViaWorkloadSlices";

/// How long Kueue may take to start. It writes the certificate of its webhooks into a Secret and looks for that in
/// its volume after pauses that double (`ensureCertsMounted` of `open-policy-agent/cert-controller`). The kubelet
/// brings it at once or a minute later, and what is missed by a look is found up to two minutes after it.
const KUEUE_PATIENCE: &str = "--timeout=10m";

/// Installs Kueue by its own chart, and waits until it runs.
pub fn install_kueue(environment: &Environment, progress: &Progress) -> Result<()> {
    const IMAGE: &str = "localhost/flux-e2e/kueue";
    let (cache, cluster) = (Cache::locate()?, &environment.cluster);
    let helm = go_programs("helm", &cache, progress)?.join("helm");
    let built = go_programs("kueue", &cache, progress)?;
    let image = format!("{IMAGE}:{KUEUE_VERSION}");
    load_program(cluster, &image, "/manager", &built.join("kueue"), progress)?;
    let mut command = cluster.program(&helm);
    command.args(["upgrade", "--install", "kueue"]).arg(built.join("chart"));
    command.args(["--namespace=kueue-system", "--create-namespace", "--wait", KUEUE_PATIENCE]);
    let image = [format!("image.repository={IMAGE}"), format!("image.tag={KUEUE_VERSION}")];
    for value in KUEUE_VALUES.map(str::to_owned).into_iter().chain(image) {
        command.arg("--set").arg(format!("controllerManager.manager.{value}"));
    }
    let feature = [format!("name={KUEUE_FEATURE}"), "enabled=true".to_owned()];
    for value in feature {
        command.arg("--set").arg(format!("controllerManager.featureGates[0].{value}"));
    }
    progress.step("installing Kueue", || programs::run(&mut command).map(drop))
}

/// Installs the scheduler beside the cluster's own, with the definitions of what it reads, and waits until it runs.
pub fn install_scheduler_plugins(environment: &Environment, progress: &Progress) -> Result<()> {
    let cluster = &environment.cluster;
    let built = go_programs("scheduler-plugins", &Cache::locate()?, progress)?;
    let image = format!("localhost/flux-e2e/scheduler-plugins:{SCHEDULER_PLUGINS_VERSION}");
    let program = built.join("scheduler-plugins");
    load_program(cluster, &image, "/scheduler-plugins", &program, progress)?;
    progress.step("installing scheduler-plugins", || {
        let definition = built.join("definitions/scheduling.x-k8s.io_podgroups.yaml");
        cluster.apply(&fs::read_to_string(definition)?, &[])?;
        let objects = include_str!("scheduler-plugins.yaml").replace("$SCHEDULER", SCHEDULER);
        cluster.apply(&objects.replace("$IMAGE", &image), &[])?;
        let wait = ["rollout", "status", "deployment/scheduler", "--timeout=2m"];
        let words = [&["--namespace", "scheduler-plugins"][..], &wait].concat();
        programs::run(&mut cluster.kubectl(&words)).map(drop)
    })
}
