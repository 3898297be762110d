//! MiniClusters whose pods have claims of devices (dynamic resource allocation of Kubernetes), by a driver that needs no
//! hardware. On a cluster of its own, because the devices are counted.

use super::placed;
use crate::prelude::*;
use e2e::schedulers::install_example_driver;
use fs_err as fs;
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../docs/how-to/gpu-and-rdma.md");

/// Devices on the node: one for each pod of a MiniCluster.
const DEVICES: usize = 2;

/// The template and the MiniCluster `claims` of the page about claims, with the driver's class of devices, the name
/// `name` and the fields `more`.
fn example(name: &str, more: &str) -> Result<String> {
    let blocks = PAGE.split("```yaml\n").skip(1).filter_map(|it| it.split("```").next());
    let mut blocks = blocks.filter(|block| block.contains("kind: ResourceClaimTemplate\n"));
    let example = blocks.next().context("the page has no template")?;
    let mut changed = example.to_owned();
    for (there, here) in [
        ("gpu.nvidia.com", "gpu.example.com"),
        ("registry.example/my-gpu-program", "ubuntu:24.04"),
        ("name: claims\n", &format!("name: {name}\n")),
        ("command: nvidia-smi -L\n", more),
    ] {
        ensure!(changed.contains(there), "the page's example has no {there:?}");
        changed = changed.replace(there, here);
    }
    Ok(changed)
}

fn apply<'run>(trial: &'run Trial, name: &'run str, more: &str) -> Result<Instance<'run>> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), example(name, more)?)?;
    trial.kubectl(&["apply", "-f", &file.path().display().to_string()])?;
    Ok(trial.named(name))
}

/// The names of the devices in lines `GPU_DEVICE_<number>=<name>`.
fn devices(lines: &str) -> BTreeSet<String> {
    let values = lines.lines().filter_map(|line| line.trim().strip_prefix("GPU_DEVICE_"));
    let names = values.filter_map(|line| {
        let (number, name) = line.split_once('=')?;
        number.parse::<usize>().ok().map(|_| name.to_owned())
    });
    names.collect()
}

/// Each of two pods has a device of its own, and so has the job's task there. Another MiniCluster waits for devices until
/// the first has ended, and its status has the reason.
async fn each_pod_its_own(trial: &Trial) -> Result<()> {
    // A job has the environment of its submission, so a hook writes the pod's own environment to a file.
    let commands = "commands: {pre: 'env > /tmp/environment'}";
    let command = "launcher: true\n      command: 'until test -e /tmp/go; do sleep 0.2; done; \
                   flux run -N2 -n2 cat /tmp/environment'";
    let first = apply(trial, "first", &format!("{commands}\n      {command}\n"))?;
    first.running(2).await?;
    let mut of_pods = Vec::new();
    for index in 0..2 {
        let of_pod = devices(&first.exec(index, &["env"]).await?);
        ensure!(of_pod.len() == 1, "pod {index} has the devices {of_pod:?}");
        of_pods.extend(of_pod);
    }
    let of_pods = BTreeSet::from_iter(of_pods);
    ensure!(of_pods.len() == DEVICES, "both pods have the device {of_pods:?}");

    let second = apply(trial, "second", "command: hostname\n")?;
    second.await_condition("Progressing", "cannot allocate all claims").await?;
    ensure!(placed(trial, "second").await? == 0, "it has a node");
    first.go(0).await?;
    first.complete().await?;
    ensure!(devices(&first.log(0).await?) == of_pods, "its job had other devices");
    second.complete().await?;
    second.each_once(&["second-0", "second-1"]).await?;
    // Kubernetes has made a claim for each pod, and deletes it with the pod.
    second.delete().await?;
    first.delete().await?;
    let claims = ["get", "resourceclaims", "--output=name"];
    until_true("no claim to be left", async || Ok(trial.kubectl(&claims)?.is_empty())).await
}

#[test]
#[ignore = "needs root"]
fn pods_have_devices_by_claims_or_wait_for_them() {
    on_a_cluster(&options("devices", Network::default()), |environment| {
        install_example_driver(environment, DEVICES)?;
        case(environment, "claims", each_pod_its_own)
    });
}
