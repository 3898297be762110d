//! Installs other projects in a cluster, built from their Go modules: Kueue, which queues Jobs until there is quota; the
//! plugin coscheduling of scheduler-plugins, which gives nodes to all pods of a group or to none; and a driver that
//! gives devices to pods.

use crate::cache::Cache;
use crate::cluster::Cluster;
use crate::environment::Environment;
use crate::kubernetes::go_programs;
use crate::product::images::load_program;
use crate::programs;
use crate::progress;
use anyhow::Result;
use fs_err as fs;
use std::path::Path;

/// The scheduler name of pods that scheduler-plugins places.
pub const SCHEDULER: &str = "scheduler-plugins-scheduler";

/// Kueue's feature by which the number of pods of a Job can change in a queue. It is off in releases before 0.18
/// (`pkg/features/kube_features.go`).
const KUEUE_FEATURE: &str = "ElasticJobsViaWorkloadSlices";

/// The time in which the pods of a chart have to start. Kueue writes the certificate of its webhooks into a Secret and
/// looks for it in its volume after pauses that double (`ensureCertsMounted` of `open-policy-agent/cert-controller`).
/// The kubelet updates the volume within a minute, and Kueue may find that up to two minutes later.
const INSTALL_TIMEOUT: &str = "--timeout=10m";

/// Installs Kueue by its own chart, and waits until it runs.
pub fn install_kueue(environment: &Environment) -> Result<()> {
    const IMAGE: &str = "localhost/flux-e2e/kueue";
    let cluster = &environment.cluster;
    let built = go_programs("kueue", &Cache::locate()?)?;
    load_program(cluster, &format!("{IMAGE}:1"), "/manager", &built.join("kueue"))?;
    // It asks for half a processor, which a small cluster needs for other pods.
    let values = format!(
        "manager.image.repository={IMAGE},manager.image.tag=1,manager.image.pullPolicy=IfNotPresent,\
         manager.resources.requests.cpu=50m,featureGates[0].name={KUEUE_FEATURE},featureGates[0].enabled=true"
    );
    let values = format!("controllerManager.{}", values.replace(',', ",controllerManager."));
    install(cluster, "kueue", &built.join("chart"), &values)
}

/// Installs a driver of devices by its own chart: it gives each node so many imaginary GPUs. A container with such a GPU
/// has the variable `GPU_DEVICE_<number>`, whose value is the name of the device.
pub fn install_example_driver(environment: &Environment, devices: usize) -> Result<()> {
    const IMAGE: &str = "localhost/flux-e2e/dra-example-driver";
    const PROGRAM: &str = "dra-example-kubeletplugin";
    let cluster = &environment.cluster;
    let built = go_programs("dra-example-driver", &Cache::locate()?)?;
    let path = format!("/usr/bin/{PROGRAM}");
    load_program(cluster, &format!("{IMAGE}:1"), &path, &built.join(PROGRAM))?;
    // The image's user is an ordinary one.
    let values = format!(
        "image.repository={IMAGE},image.tag=1,kubeletPlugin.numDevices={devices},\
         kubeletPlugin.podSecurityContext.runAsUser=0"
    );
    install(cluster, "dra-example-driver", &built.join("chart"), &values)
}

/// Installs a chart with these values in a namespace of its own, and waits until its pods run.
fn install(cluster: &Cluster, name: &str, chart: &Path, values: &str) -> Result<()> {
    let helm = go_programs("helm", &Cache::locate()?)?.join("helm");
    let mut command = cluster.program(&helm);
    command.args(["upgrade", "--install", name]).arg(chart);
    command.arg(format!("--namespace={name}-system"));
    command.args(["--create-namespace", "--wait", INSTALL_TIMEOUT, "--set", values]);
    progress::step(&format!("installing {name}"), || programs::run(&mut command).map(drop))
}

/// Installs the scheduler beside the cluster's own, with its CRDs, and waits until it runs.
pub fn install_scheduler_plugins(environment: &Environment) -> Result<()> {
    const IMAGE: &str = "localhost/flux-e2e/scheduler-plugins:1";
    let cluster = &environment.cluster;
    let built = go_programs("scheduler-plugins", &Cache::locate()?)?;
    let program = built.join("scheduler-plugins");
    load_program(cluster, IMAGE, "/scheduler-plugins", &program)?;
    progress::step("installing scheduler-plugins", || {
        let definition = built.join("definitions/scheduling.x-k8s.io_podgroups.yaml");
        cluster.apply(&fs::read_to_string(definition)?, &[])?;
        let objects = include_str!("scheduler-plugins.yaml").replace("$SCHEDULER", SCHEDULER);
        cluster.apply(&objects.replace("$IMAGE", IMAGE), &[])?;
        let wait = ["rollout", "status", "deployment/scheduler", "--timeout=2m"];
        let words = [&["--namespace", "scheduler-plugins"][..], &wait].concat();
        programs::run(&mut cluster.kubectl(&words)).map(drop)
    })
}
