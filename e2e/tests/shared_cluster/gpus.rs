//! How Flux sees GPUs, with files in place of devices.

use crate::prelude::*;

const EXAMPLE: &str = include_str!("../../../examples/gpu/minicluster.yaml");

/// Files by the names of NVIDIA's driver, as its device plugin gives them to a container.
const FILES: &str = "volumes: {one: {hostPath: /dev/null, path: /dev/nvidia0}, \
                     other: {hostPath: /dev/null, path: /dev/nvidia3}}";

#[test]
#[ignore = "needs a cluster"]
fn flux_counts_the_gpus_that_the_container_has() {
    trial("gpus", async |trial| {
        let run = trial.run("gpus", "size: 2, interactive: true", FILES).await?;
        run.running(2).await?;
        let printed = run.exec(0, &["/mnt/flux/bin/flux-agent", "resources"]).await?;
        let gpus = printed.lines().find_map(|line| line.strip_prefix("GPUs for Flux"));
        ensure!(gpus.is_some_and(|gpus| gpus.trim() == "2"), "{printed}");
        // Nothing is in the way of a job.
        run.flux(&["run", "-N2", "-n2", "true"]).await.map(drop)
    });
}

#[test]
#[ignore = "needs a cluster"]
fn each_task_sees_the_gpus_of_its_pod() {
    with_real_flux("gpu-example", "the example gpu", "it needs real Flux", async |trial| {
        let device = "          nvidia.com/gpu: 1\n";
        ensure!(EXAMPLE.ends_with(device), "the example does not end with {device:?}");
        let example = EXAMPLE.replace(device, &format!("      {FILES}\n"));
        // The other as `kubectl flux run --gpus` asks for them.
        let whole_nodes = "tasks: 2\n  flux: {optionFlags: --exclusive}";
        for (name, tasks) in [("gpu", "tasks: 0"), ("gpu-run", whole_nodes)] {
            let named = example.replace("name: gpu", &format!("name: {name}"));
            trial.apply(&named.replace("tasks: 0", tasks)).await?;
            let run = trial.named(name);
            run.complete().await?;
            run.each_once(&["task 0 has the GPUs 0,1", "task 1 has the GPUs 0,1"]).await?;
        }
        Ok(())
    });
}
