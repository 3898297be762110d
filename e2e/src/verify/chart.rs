//! The chart, as helm reads it: what is rendered from it is fresh, each value has its effect, and wrong values are
//! refused.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::{product::chart::Chart, progress::Progress};

/// Values that are none, as `--set` takes them.
const WRONG: [&str; 7] = [
    "watchNamespace=Not_A_Name",
    "install=Sometimes",
    "image.digest=latest",
    "registry=https://registry.example/",
    "concurrency=0",
    "nosuchvalue=1",
    // One operator cannot be kept while its node is drained.
    "podDisruptionBudget.enabled=true",
];

/// Values, and what one of the objects has then: kind, JSON pointer, value.
type Case = (Value, &'static str, &'static str, Value);

/// Checks the chart and what is rendered from it.
pub fn check(progress: &Progress) -> Result<()> {
    let chart = Chart::of_checkout(progress)?;
    chart.lint()?;
    chart.check_rendered()?;
    for (values, kind, pointer, expected) in images().into_iter().chain(pods()).chain(others()) {
        let objects = objects(&chart, &values).with_context(|| format!("with {values}"))?;
        let found = objects.iter().find(|object| object["kind"] == kind);
        let found = found.and_then(|object| object.pointer(pointer));
        ensure!(
            found == Some(&expected),
            "with {values}, the {kind} has {found:?} at {pointer}, and not {expected}"
        );
    }
    serves_one_namespace(&chart)?;
    for wrong in WRONG {
        let refused = chart.render("team", &["--set", wrong]);
        ensure!(refused.is_err(), "the chart takes the value {wrong}");
    }
    Ok(())
}

/// The objects of the chart with these values, in the namespace `team`.
fn objects(chart: &Chart, values: &Value) -> Result<Vec<Value>> {
    let file = tempfile::NamedTempFile::new().context("making a file for values")?;
    std::fs::write(file.path(), values.to_string()).context("writing values")?;
    let text = chart.render("team", &["--values", &file.path().to_string_lossy()])?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).context("reading YAML")?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// Which images are named.
fn images() -> Vec<Case> {
    const IMAGE: &str = "/spec/template/spec/containers/0/image";
    const AGENT: &str = "/spec/template/spec/containers/0/env/0/value";
    const VIEW: &str = "/spec/template/spec/containers/0/env/2/value";
    let version = env!("CARGO_PKG_VERSION");
    let mirror = json!({ "registry": "registry.example:5000/flux" });
    let digest = format!("sha256:{}", "0".repeat(64));
    let with_view = json!({
        "agentImage": { "repository": "flux-operator-rs-view", "digest": digest }, "viewImage": "",
    });
    let view = format!("ghcr.io/flux-framework/flux-operator-rs-view@{digest}");
    let own = json!({ "image": { "registry": "localhost", "repository": "operator", "tag": "3" } });
    let mirrored = |name: &str| format!("registry.example:5000/flux/{name}:{version}").into();
    vec![
        (mirror.clone(), "Deployment", IMAGE, mirrored("flux-operator-rs")),
        (mirror, "Deployment", AGENT, mirrored("flux-operator-rs-agent")),
        (with_view.clone(), "Deployment", AGENT, json!(view)),
        (with_view, "Deployment", VIEW, json!(view)),
        (own, "Deployment", IMAGE, json!("localhost/operator:3")),
    ]
}

/// Values that the pod has as they are.
fn pods() -> Vec<Case> {
    let toleration = json!([{ "key": "control-plane", "operator": "Exists" }]);
    let affinity =
        json!({ "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [] } });
    let pod = |key: &str, pointer, value: Value| {
        (json!({ key: value.clone() }), "Deployment", pointer, value)
    };
    vec![
        pod("tolerations", "/spec/template/spec/tolerations", toleration),
        pod("affinity", "/spec/template/spec/affinity", affinity),
        pod(
            "nodeSelector",
            "/spec/template/spec/nodeSelector",
            json!({ "kubernetes.io/os": "linux", "pool": "a" }),
        ),
        pod("priorityClassName", "/spec/template/spec/priorityClassName", json!("high")),
        pod(
            "imagePullSecrets",
            "/spec/template/spec/imagePullSecrets",
            json!([{ "name": "a" }, { "name": "b" }]),
        ),
        pod("podAnnotations", "/spec/template/metadata/annotations", json!({ "a": "b" })),
        pod("deploymentAnnotations", "/metadata/annotations", json!({ "a": "b" })),
        pod("replicas", "/spec/replicas", json!(3)),
        (
            json!({ "resources": { "limits": { "memory": "1Gi" } } }),
            "Deployment",
            "/spec/template/spec/containers/0/resources/limits/memory",
            json!("1Gi"),
        ),
        (
            json!({ "logLevel": "info,kube=debug" }),
            "Deployment",
            "/spec/template/spec/containers/0/env/5",
            json!({ "name": "FLUX_OPERATOR_LOG_LEVEL", "value": "info,kube=debug" }),
        ),
        (
            json!({ "concurrency": 16 }),
            "Deployment",
            "/spec/template/spec/containers/0/env/4",
            json!({ "name": "FLUX_OPERATOR_CONCURRENCY", "value": "16" }),
        ),
        (
            json!({ "extraArgs": ["--lease-name=other"] }),
            "Deployment",
            "/spec/template/spec/containers/0/args/2",
            json!("--lease-name=other"),
        ),
    ]
}

/// What other objects have.
fn others() -> Vec<Case> {
    let labels = json!({ "release": "prometheus" });
    let monitor = json!({ "serviceMonitor": { "enabled": true, "labels": labels } });
    let budget =
        json!({ "replicas": 3, "podDisruptionBudget": { "enabled": true, "minAvailable": 2 } });
    let policy = json!({ "networkPolicy": { "enabled": true } });
    vec![
        (monitor, "ServiceMonitor", "/metadata/labels/release", json!("prometheus")),
        (budget, "PodDisruptionBudget", "/spec/minAvailable", json!(2)),
        (policy, "NetworkPolicy", "/spec/policyTypes", json!(["Ingress"])),
        (json!({ "commonLabels": { "a": "b" } }), "ClusterRole", "/metadata/labels/a", json!("b")),
        (json!({}), "ClusterRoleBinding", "/subjects/0/namespace", json!("team")),
    ]
}

/// An operator for a single namespace has nothing outside of namespaces, and may be in another one than it serves.
fn serves_one_namespace(chart: &Chart) -> Result<()> {
    for object in objects(chart, &json!({ "watchNamespace": "work" }))? {
        let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
        let serves = (kind == "Role" || kind == "RoleBinding") && name == "flux-operator";
        let place = if serves { "work" } else { "team" };
        ensure!(object["metadata"]["namespace"] == place, "{kind} {name} is not in {place}");
        if kind == "RoleBinding" {
            ensure!(object["subjects"][0]["namespace"] == "team", "{name} is for another operator");
        }
    }
    Ok(())
}
