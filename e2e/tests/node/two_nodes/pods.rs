//! What the harness promises of two nodes, without any MiniCluster.

use anyhow::{Result, ensure};
use e2e::trial::Trial;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{FIRST, Pair, SECOND};

/// Tells whoever connects by which address it is seen, and what the node is.
const SERVER: &str = "use IO::Socket::INET; \
    $s = IO::Socket::INET->new(LocalPort => 8080, Listen => 5, ReuseAddr => 1) or die; \
    while ($c = $s->accept) { print $c $c->peerhost, qq(\\n); close $c }";

/// Addresses stay the same on the way, Services and names lead to either node, and the API server reaches pods
/// of both.
pub(super) async fn pods_of_two_nodes_reach_each_other(
    pair: &Pair<'_>,
    trial: &Trial,
) -> Result<()> {
    let space = ["--namespace", trial.namespace()];
    for node in [FIRST, SECOND] {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("objects.json");
        std::fs::write(&file, objects(node).to_string())?;
        let file = file.display().to_string();
        pair.kubectl(&[&["apply", "-f", file.as_str()][..], &space].concat())?;
    }
    for node in [FIRST, SECOND] {
        let ready = ["wait", "--for=condition=Ready", "--timeout=2m"];
        pair.kubectl(&[&ready[..], &[&format!("pod/{node}")], &space].concat())?;
    }
    for (from, to) in [(FIRST, SECOND), (SECOND, FIRST)] {
        let own = address(trial, from).await?;
        for host in [&address(trial, to).await?, &format!("to-{to}")] {
            // A Service refuses until kube-proxy knows its endpoint.
            let script = format!("until cat 2>/dev/null </dev/tcp/{host}/8080; do sleep 0.1; done");
            let words = ["exec", from, "--", "bash", "-c", &script];
            let seen = pair.kubectl(&[&space[..], &words].concat())?;
            ensure!(seen.trim() == own, "{to} sees {from} as {seen}, at {host}");
        }
        let log = pair.kubectl(&[&space[..], &["logs", from]].concat())?;
        ensure!(log == format!("on {from}\n"), "{log}");
    }
    Ok(())
}

async fn address(trial: &Trial, pod: &str) -> Result<String> {
    let pod = trial.api::<Pod>().get(pod).await?;
    Ok(pod.status.and_then(|status| status.pod_ip).unwrap_or_default())
}

/// A pod on this node that serves, and a Service for it.
fn objects(node: &str) -> Value {
    let script = format!("echo on {node}; exec perl -e '{SERVER}'");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": node, "labels": {"app": node}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": "ubuntu:24.04", "command": ["bash", "-c", script],
                "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
            }],
        },
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("to-{node}")},
        "spec": {"selector": {"app": node}, "ports": [{"port": 8080}]},
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [pod, service]})
}
