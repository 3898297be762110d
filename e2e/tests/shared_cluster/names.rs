//! Names that MiniClusters share, and names that other objects have, too.

use crate::prelude::*;
use k8s_openapi::api::core::v1::Service;
use std::fs;

const TEAM: &str = "size: 1, network: {headlessName: team}";

#[test]
#[ignore = "needs a cluster"]
fn miniclusters_with_one_headless_name_find_each_other() {
    trial("team", async |trial| {
        let first = trial.run("a", TEAM, "").await?;
        first.ready().await?;
        let finds = "command: \"until getent hosts a-0.team; do sleep 0.2; done\"";
        trial.run("b", TEAM, finds).await?.complete().await?;
        let second = trial.run("c", TEAM, "").await?;
        second.ready().await?;
        let finds = ["sh", "-c", "until getent hosts c-0.team; do sleep 0.2; done"];
        first.exec(0, &finds).await?;
        first.delete().await?;
        let services = trial.api::<Service>();
        let left = services.get("team").await?;
        ensure!(left.spec.unwrap_or_default().selector.is_some_and(|it| it.len() == 1));
        let finds = "command: \"until getent hosts c-0.team; do sleep 0.2; done\"";
        trial.run("d", TEAM, finds).await?.complete().await?;
        for name in ["b", "c", "d"] {
            trial.named(name).delete().await?;
        }
        let is_gone = async || Ok(services.get_opt("team").await?.is_none());
        until_true("the shared Service to go", is_gone).await
    });
}

/// `kubectl apply` of a Service with a sidecar's short name finds the operator's.
#[test]
#[ignore = "needs a cluster"]
fn a_service_applied_over_a_short_name_is_its_users() {
    let theirs = r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "theirs"}, "ports": [{"name": "own", "port": 8080}]}}"#;
    trial("short-name", async |trial| {
        let sidecar =
            "runFlux: true}, {image: 'ubuntu:24.04', name: web, ports: [80], command: 'sleep 1'";
        let run = trial.run("short", "size: 1, interactive: true", sidecar).await?;
        run.ready().await?;
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), theirs)?;
        trial.kubectl(&["apply", "-f", &file.path().to_string_lossy()])?;
        let services = trial.api::<Service>();
        let port = |service: &Service| {
            let ports = service.spec.clone().unwrap_or_default().ports.unwrap_or_default();
            ports.iter().any(|it| it.port == 8080)
        };
        let owners = async || Ok(services.get("web").await?.metadata.owner_references);
        let is_free = async || owners().await.map(|owners| owners.unwrap_or_default().is_empty());
        until_true("the Service to be given up", is_free).await?;
        run.delete().await?;
        ensure!(port(&services.get("web").await?));
        Ok(())
    });
}
