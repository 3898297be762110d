//! MiniClusters that are removed in every way leave nothing, neither in the cluster nor in the operator's metrics.

use crate::prelude::*;
use e2e::product::install::{NAME, NAMESPACE};
use futures::future::try_join_all;

/// A container with a Service, as a sidecar or in the pod of `services`.
const OTHER: &str =
    "{name: beside, image: 'ubuntu:24.04', runFlux: false, command: sleep 600, ports: [8080]}";
const IDLE: &str = "{image: 'ubuntu:24.04'}";
const ENDS: &str = "{image: 'ubuntu:24.04', command: echo once}";
const FAILS: &str = "{image: 'ubuntu:24.04', command: 'echo once; exit 7'}";

#[test]
#[ignore = "needs root"]
fn miniclusters_that_are_removed_leave_nothing() {
    on_a_cluster(&options("removal", Network::default()), |environment| {
        case(environment, "removal", nothing_is_left_of_any)
    });
}

/// Lets the test read the metrics by the API server, which passes no token on to a Service.
fn serve_plain_metrics(trial: &Trial) -> Result<()> {
    let deployment = format!("deployment/{NAME}");
    for words in [
        ["set", "env", &deployment, "FLUX_OPERATOR_METRICS_SECURE=false"],
        ["rollout", "status", &deployment, "--timeout=3m"],
    ] {
        trial.kubectl(&[&["--namespace", NAMESPACE], &words[..]].concat())?;
    }
    Ok(())
}

/// Also checks that the operator has not restarted, and that its metrics do not name removed MiniClusters.
async fn nothing_is_left_of_any(trial: &Trial) -> Result<()> {
    serve_plain_metrics(trial)?;
    let before = trial.operator_pods()?;
    let nowhere = "pod: {nodeSelector: {e2e.invalid/none: none}}";
    // With the state in which each is deleted, and how. One expires.
    let removals = [
        (
            "running",
            format!("interactive: true, services: [{OTHER}], containers: [{IDLE}]"),
            Some((State::Running, "background")),
        ),
        (
            "beside",
            format!("interactive: true, containers: [{IDLE}, {OTHER}]"),
            Some((State::Running, "foreground")),
        ),
        (
            "nowhere",
            format!("{nowhere}, containers: [{ENDS}]"),
            Some((State::Pending, "background")),
        ),
        (
            "complete",
            format!("services: [{OTHER}], containers: [{ENDS}]"),
            Some((State::Complete, "background")),
        ),
        ("failed", format!("containers: [{FAILS}, {OTHER}]"), Some((State::Failed, "foreground"))),
        ("expires", format!("ttlSecondsAfterFinished: 0, containers: [{ENDS}]"), None),
    ];
    let removals = removals.map(async |(name, spec, removal)| {
        let run = trial.start(name, &format!("{{size: 2, {spec}}}")).await?;
        let Some((state, cascade)) = removal else { return Ok(()) };
        run.status(&format!("{state:?}"), |status| status.state == Some(state)).await?;
        let cascade = format!("--cascade={cascade}");
        run.kubectl(&["delete", "minicluster", name, "--wait=false", &cascade]).map(drop)
    });
    try_join_all(removals).await?;
    let mut left = String::new();
    let gone = wait_for("everything to be gone", async || {
        let kinds = "miniclusters,jobs,pods,services,configmaps,secrets,endpointslices,leases";
        left = trial.kubectl(&["get", kinds, "-oname"])?;
        Ok((left.trim() == "configmap/kube-root-ca.crt").then_some(()))
    });
    gone.await.with_context(|| format!("left: {left}"))?;
    let after = trial.operator_pods()?;
    ensure!(before == after, "the operator was {before:?} and is {after:?}");
    let service = format!("services/{NAME}-metrics:metrics/proxy/metrics");
    let path = format!("/api/v1/namespaces/{NAMESPACE}/{service}");
    let metrics = trial.kubectl(&["get", "--raw", &path])?;
    let counted = metrics.contains("flux_operator_reconcile_runs_total");
    ensure!(counted && !metrics.contains(trial.namespace()), "{metrics}");
    ensure!(!metrics.contains("category=\"Internal\""), "it has panicked: {metrics}");
    Ok(())
}
