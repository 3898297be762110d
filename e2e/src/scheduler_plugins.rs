//! A scheduler that gives nodes to the pods of a group together or not at all: the plugin coscheduling of
//! scheduler-plugins, built from its Go module. It runs beside the cluster's own scheduler.

use std::fs;

use anyhow::{Context as _, Result};

use crate::{
    cache::Cache,
    environment::Environment,
    kubernetes::{SCHEDULER_PLUGINS_VERSION, scheduler_plugins},
    product::images::load_program,
    programs,
    progress::Progress,
};

/// What pods name to be placed by it.
pub const SCHEDULER: &str = "scheduler-plugins-scheduler";

/// Installs it with the definitions of what it reads, and waits until it runs.
pub fn install(environment: &Environment, progress: &Progress) -> Result<()> {
    let cluster = &environment.cluster;
    let built = scheduler_plugins(&Cache::locate()?, progress)?;
    let image = format!("localhost/flux-e2e/scheduler-plugins:{SCHEDULER_PLUGINS_VERSION}");
    progress.step("loading scheduler-plugins", || {
        let program = built.join("scheduler-plugins");
        load_program(cluster, &image, "/scheduler-plugins", &program)
    })?;
    progress.step("installing scheduler-plugins", || {
        let path = built.join("definitions/scheduling.x-k8s.io_podgroups.yaml");
        let definition = fs::read_to_string(&path)
            .with_context(|| format!("reading the definition {}", path.display()))?;
        cluster.apply(&definition, &[])?;
        let objects = include_str!("scheduler-plugins.yaml").replace("$SCHEDULER", SCHEDULER);
        cluster.apply(&objects.replace("$IMAGE", &image), &[])?;
        let wait = ["rollout", "status", "deployment/scheduler", "--timeout=2m"];
        let words = [&["--namespace", "scheduler-plugins"][..], &wait].concat();
        programs::run(&mut cluster.kubectl(&words)).map(drop)
    })
}
