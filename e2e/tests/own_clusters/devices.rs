//! MiniClusters whose pods have claims of devices (dynamic resource allocation of Kubernetes), by a driver that needs no
//! hardware. On a cluster of its own, because the devices are counted.

use super::placed;
use crate::prelude::*;
use e2e::examples::run::run;
use e2e::schedulers::install_example_driver;

const TEMPLATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/claims/1-template.yaml");
const EXAMPLE: &str = include_str!("../../../examples/claims/minicluster.yaml");

/// Devices on the node: one for each pod of a MiniCluster.
const DEVICES: usize = 2;

/// The MiniCluster of the example, with the name `name` and these further fields.
async fn apply<'run>(trial: &'run Trial, name: &'run str, fields: &str) -> Result<Instance<'run>> {
    let named = EXAMPLE.replace("name: claims\n", &format!("name: {name}\n"));
    trial.apply(&named.replace("spec:\n", &format!("spec:\n{fields}"))).await?;
    Ok(trial.named(name))
}

/// A MiniCluster waits for devices until another has none any more, and its status has the reason.
async fn one_after_the_other(trial: &Trial) -> Result<()> {
    trial.kubectl(&["apply", "-f", TEMPLATE])?;
    let first = apply(trial, "first", "  interactive: true\n").await?;
    first.running(2).await?;
    let second = apply(trial, "second", "").await?;
    second.await_condition("Progressing", "cannot allocate all claims").await?;
    ensure!(placed(trial, "second").await? == 0, "it has a node");
    first.delete().await?;
    second.complete().await?;
    // Kubernetes has made a claim for each pod, and deletes it with the pod.
    second.delete().await?;
    let claims = ["get", "resourceclaims", "--output=name"];
    until_true("no claim to be left", async || Ok(trial.kubectl(&claims)?.is_empty())).await
}

#[test]
#[ignore = "needs root"]
fn pods_have_devices_by_claims_or_wait_for_them() {
    on_a_cluster(&options("devices", Network::default()), |environment| {
        install_example_driver(environment, DEVICES)?;
        run("claims", None, environment)?;
        case(environment, "claims", one_after_the_other)
    });
}
