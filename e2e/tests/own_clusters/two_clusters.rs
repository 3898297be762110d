//! A MiniCluster of one cluster bursts into another one, over a line between their nodes. Needs root.

use crate::prelude::*;
use e2e::cluster::ClusterChoice;
use e2e::kubernetes::{DownAtEnd, Kubernetes};
use k8s_openapi::api::core::v1::Service;
use kube::api::PostParams;
use kube::config::Kubeconfig;
use std::io::Write as _;
use tempfile::NamedTempFile;

/// The context of the second cluster.
const FAR: &str = "far";
/// A port at which no Service listens.
const CLOSED: u16 = 30_099;
/// An address that no node has.
const NOBODY: &str = "10.90.0.77";

#[test]
#[ignore = "needs root"]
fn a_minicluster_bursts_into_another_cluster() {
    let near = options("near", Network::default());
    let far = options(FAR, Network { elsewhere: true, ..Network::default() });
    on_a_cluster(&near, |first| {
        let _down = DownAtEnd(far.clone());
        let second = Environment::prepare(&ClusterChoice::Own(far.clone()), false)?;
        own(first)?.link(&near.network, own(&second)?, &far.network)?;
        let clusters = json!({ "clusters": [{ "name": "burst-0", "size": 1 }] });
        let hostlist = json!({ "hostlist": "root-0,burst-0-0" });
        case(first, "clusters", async |lead| by_hand(lead, &second, 30_093, &clusters).await)?;
        case(first, "hostlist", async |lead| by_hand(lead, &second, 30_094, &hostlist).await)?;
        case(first, "plugin", async |lead| by_plugin(lead, first, &second).await)?;
        case(first, "obstacles", async |lead| obstacles(lead, &second).await)
    });
}

fn own(environment: &Environment) -> Result<&Kubernetes> {
    environment.cluster.own().context("the cluster is not one of ours")
}

/// A namespace of the second cluster, from a thread in the network of the first, which the line connects.
async fn far_trial(second: &Environment) -> Result<Trial> {
    Trial::begin(&second.cluster, &second.client().await?, FAR).await
}

fn spec(flux: &Value) -> String {
    let containers = json!([{ "image": "ubuntu:24.04" }]);
    json!({ "size": 1, "interactive": true, "flux": flux, "containers": containers }).to_string()
}

/// The address of the first cluster's node, which the second one reaches.
fn node_address(lead: &Trial) -> Result<String> {
    let address = r#"-ojsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}"#;
    lead.kubectl(&["get", "nodes", address])
}

/// Makes the Service by which the lead is reached at this port of its node.
async fn expose(lead: &Trial, port: u16) -> Result<()> {
    let service = json!({
        "metadata": { "name": "root-outside" },
        "spec": {
            "type": "NodePort", "publishNotReadyAddresses": true,
            "selector": {
                "batch.kubernetes.io/job-name": "root",
                "batch.kubernetes.io/job-completion-index": "0",
            },
            "ports": [{ "name": "flux", "port": 8050, "nodePort": port }],
        },
    });
    let service: Service = serde_json::from_value(service)?;
    lead.api::<Service>().create(&PostParams::default(), &service).await?;
    Ok(())
}

/// A certificate that nobody else has, from the agent in the pod of a lead.
async fn another_certificate(root: &Instance<'_>) -> Result<String> {
    root.exec(0, &["/mnt/flux/bin/flux-agent", "keygen"]).await
}

/// A job runs on both, while the second is there.
async fn runs_on_both(root: &Instance<'_>) -> Result<()> {
    root.up(2).await?;
    let hosts = root.flux(&["run", "-N2", "-n2", "hostname"]).await?;
    ensure!(sorted(&hosts) == ["burst-0-0", "root-0"], "the job ran on {hosts}");
    Ok(())
}

/// As the document of the API writes it: both have the certificate and the hosts, and the second has `leadBroker`.
async fn by_hand(lead: &Trial, second: &Environment, port: u16, hosts: &Value) -> Result<()> {
    let far = far_trial(second).await?;
    let maker = lead.run("maker", "interactive: true", "").await?;
    maker.ready().await?;
    let certificate = another_certificate(&maker).await?;
    maker.delete().await?;
    let mut bursting = hosts.clone();
    let flux = json!({ "curveCert": certificate, "bursting": bursting });
    let root = lead.start("root", &spec(&flux)).await?;
    expose(lead, port).await?;
    root.ready().await?;
    bursting["leadBroker"] =
        json!({ "name": "root", "size": 1, "address": node_address(lead)?, "port": port });
    let flux = json!({ "curveCert": certificate, "bursting": bursting });
    for _ in 0..2 {
        let burst = far.start("burst-0", &spec(&flux)).await?;
        burst.ready().await?;
        runs_on_both(&root).await?;
        burst.delete().await?;
        root.up(1).await?;
    }
    far.clean().await
}

/// A kubeconfig with the contexts of both clusters; that of the second is [`FAR`].
fn both(first: &Environment, second: &Environment) -> Result<NamedTempFile> {
    let read = |environment: &Environment| Kubeconfig::read_from(environment.cluster.kubeconfig());
    let (mut near, mut far) = (read(first)?, read(second)?);
    let name = || FAR.to_owned();
    far.clusters.iter_mut().for_each(|it| it.name = name());
    far.auth_infos.iter_mut().for_each(|it| it.name = name());
    for context in &mut far.contexts {
        context.name = name();
        if let Some(context) = &mut context.context {
            (context.cluster, context.user) = (name(), Some(name()));
        }
    }
    near.clusters.extend(far.clusters);
    near.auth_infos.extend(far.auth_infos);
    near.contexts.extend(far.contexts);
    let mut file = NamedTempFile::new()?;
    file.write_all(serde_saphyr::to_string(&near)?.as_bytes())?;
    Ok(file)
}

/// The plugin makes all of it, with the certificate that the operator has made, and takes it down, twice.
async fn by_plugin(lead: &Trial, first: &Environment, second: &Environment) -> Result<()> {
    let far = far_trial(second).await?;
    let kubeconfig = both(first, second)?;
    let file = kubeconfig.path().to_str().context("not UTF-8")?;
    let burst = |words: &[&str]| {
        let line =
            ["--kubeconfig", file, "burst", "root", "--to", FAR, "--to-namespace", far.namespace()];
        lead.plugin_ends(0, &[&line, words, &["--timeout", "3m"]].concat())
    };
    let clusters = json!({ "bursting": { "clusters": [{ "name": "burst-0", "size": 1 }] } });
    let root = lead.start("root", &spec(&clusters)).await?;
    root.ready().await?;
    for _ in 0..2 {
        burst(&[])?;
        runs_on_both(&root).await?;
        burst(&["--down"])?;
        root.up(1).await?;
    }
    let left = far.kubectl(&["get", "minicluster,secret", "-oname"])?;
    ensure!(left.is_empty(), "{left} is left");
    let left = lead.kubectl(&["get", "service", "root-burst-0", "--ignore-not-found"])?;
    ensure!(left.is_empty(), "{left} is left");
    far.clean().await
}

/// What keeps a second MiniCluster from the lead is in its condition, with the remedy.
async fn obstacles(lead: &Trial, second: &Environment) -> Result<()> {
    let far = far_trial(second).await?;
    let clusters = json!({ "bursting": { "clusters": [{ "name": "burst-0", "size": 1 }] } });
    let root = lead.start("root", &spec(&clusters)).await?;
    root.ready().await?;
    let another = another_certificate(&root).await?;
    let own = root.exec(0, &["cat", "/flux_operator/curve/curve.cert"]).await?;
    let (node, open) = (node_address(lead)?, 30_095);
    expose(lead, open).await?;
    let flux = |name: &str, certificate: &str, address: &str, port: u16| {
        let broker = json!({ "name": "root", "size": 1, "address": address, "port": port });
        let bursting = json!({ "leadBroker": broker, "clusters": [{ "name": name, "size": 1 }] });
        json!({ "curveCert": certificate, "bursting": bursting })
    };
    for (name, address, port, remedy) in [
        ("certificate", &*node, open, "flux.curveCertSecret"),
        ("address", NOBODY, open, "leadBroker.address"),
        ("port", &*node, CLOSED, "leadBroker.port"),
    ] {
        far.start(name, &spec(&flux(name, &another, address, port))).await?;
        far.named(name).await_condition("Progressing", remedy).await?;
    }
    let mut flux = flux("burst-0", &own, &node, open);
    if let Some(image) = second.load_another_release()? {
        flux["container"] = json!({ "image": image });
        let refused = far.start("burst-0", &spec(&flux)).await?;
        refused.await_condition("Progressing", "flux.container.image").await?;
        refused.printed(0, "version mismatched with server").await?;
    } else {
        let why = "FLUX_OTHER_VIEW_ARCHIVE names no view of one";
        notes::not_run("a burst of another release of Flux", why);
    }
    far.clean().await
}
