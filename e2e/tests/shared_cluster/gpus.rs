//! How Flux sees GPUs, with files in place of devices.

use crate::prelude::*;

const EXAMPLE: &str = include_str!("../../../examples/gpu/minicluster.yaml");

/// Files by the names of NVIDIA's driver, as its device plugin gives them to a container.
const FILES: &str = "volumes: {one: {hostPath: /dev/null, path: /dev/nvidia0}, \
                     other: {hostPath: /dev/null, path: /dev/nvidia3}}";

#[test]
#[ignore = "needs a cluster"]
fn each_task_sees_the_gpus_of_its_pod() {
    with_real_flux("gpu-example", "the example gpu", "it needs real Flux", async |trial| {
        let resources = "resources: {limits: {nvidia.com/gpu: 1}}";
        ensure!(EXAMPLE.contains(resources), "the example has no {resources:?}");
        trial.apply(&EXAMPLE.replace(resources, FILES)).await?;
        let run = trial.named("gpu");
        run.complete().await?;
        run.each_once(&["task 0 has the GPUs 0,1", "task 1 has the GPUs 0,1"]).await
    });
}
