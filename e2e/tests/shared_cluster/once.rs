//! A command runs once, and the status has its real end, even if somebody deletes the Job, refuses the pod or adds
//! containers to it.

use crate::prelude::*;
use k8s_openapi::api::batch::v1::Job;

const PROXY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shared_cluster/manifests/proxy.yaml");

#[test]
#[ignore = "needs a cluster"]
fn a_job_deleted_while_it_runs_is_not_repeated() {
    trial("deleted-job", async |trial| {
        let run = trial.run("gone", "size: 2", "command: 'echo once; sleep 600'").await?;
        run.ready().await?;
        run.kubectl(&["delete", "job", "gone", "--timeout=2m"])?;
        let (code, message) = run.fails("EndNotSeen").await?;
        ensure!(code.is_none() && message.contains("Change spec.runId"), "{code:?}: {message}");
        ensure!(trial.api::<Job>().get_opt("gone").await?.is_none(), "there is another Job");
        Ok(())
    });
}

/// A kubelet refuses a pod that somebody has bound to its node if the node does not match the pod's selector.
#[test]
#[ignore = "needs a cluster"]
fn a_lead_that_its_kubelet_refuses_has_run_nothing() {
    trial("refused-lead", async |trial| {
        let there = trial.run("there", "size: 1", "command: sleep 600").await?;
        there.ready().await?;
        let node = there.pod(0).await?.spec.and_then(|spec| spec.node_name).unwrap_or_default();
        let label = trial.namespace();
        let fields = format!(
            "size: 1, pod: {{nodeSelector: {{{label}: 'true'}}, overlay: {{nodeName: {node}}}}}"
        );
        let run = trial.run("refused", &fields, "command: echo once").await?;
        run.await_condition("Progressing", "NodeAffinity").await?;
        trial.kubectl(&["label", "node", &node, &format!("{label}=true")])?;
        let completed = run.complete().await;
        trial.kubectl(&["label", "node", &node, &format!("{label}-")])?;
        completed?;
        run.each_once(&["once"]).await
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_run_ends_with_its_runner_beside_injected_containers() {
    trial("proxy", async |trial| {
        if trial.kubectl(&["get", "mutatingadmissionpolicies"]).is_err() {
            let why = "the cluster has no MutatingAdmissionPolicy";
            notes::not_run("containers of others", why);
            return Ok(());
        }
        trial.kubectl(&["apply", "--filename", PROXY])?;
        let result = Box::pin(beside_a_proxy(trial)).await;
        trial.kubectl(&["delete", "--filename", PROXY])?;
        result
    });
}

/// Waits until `kubectl flux explain` has these words about the end of the run.
async fn explained(run: &Instance<'_>, words: &str) -> Result<()> {
    let says = |status: &MiniClusterStatus| {
        let mut all = status.conditions.iter();
        all.any(|it| it.type_ == "Progressing" && it.message.contains(words))
    };
    run.status(words, says).await.map(drop)
}

async fn beside_a_proxy(trial: &Trial) -> Result<()> {
    // The API server applies a new policy after a moment.
    let labels = "pod: {labels: {flux-e2e-proxy: 'true'}}, flux: {drainSeconds: 10}";
    let has_proxy = |pod: &Pod| {
        let containers = pod.spec.as_ref().map(|spec| spec.containers.clone()).unwrap_or_default();
        containers.first().is_some_and(|container| container.name == "proxy-first")
    };
    wait_for("the policy", async || {
        let run = trial.run("probe", &format!("size: 1, {labels}"), "command: sleep 600").await?;
        run.ready().await?;
        let proxied = has_proxy(&run.pod(0).await?);
        if !proxied {
            run.delete().await?;
        }
        Ok(proxied.then_some(()))
    })
    .await?;
    let fields = format!("size: 2, {labels}");
    let well = trial.run("well", &fields, "command: 'sleep 25; echo done'").await?;
    let badly = trial.run("badly", &fields, "command: 'echo broken >&2; exit 7'").await?;
    let (code, _) = badly.fails("CommandFailed").await?;
    ensure!(code == Some(7), "{code:?}");
    let lead = badly.pod(0).await?;
    ensure!(has_proxy(&lead), "the lead has no proxy");
    explained(&badly, "proxy-first").await?;
    ensure!(end_of(&lead, badly.name).is_some(), "the lead's runner has not ended");
    let log = trial.kubectl(&["logs", &lead.name_any()])?;
    ensure!(log.contains("broken"), "not the runner's log: {log}");
    // One proxy has failed before the end of a good run.
    well.complete().await?;
    for run in [&well, &badly] {
        wait_for("the end of all pods", async || {
            let pods = trial.pods(run.name).await?;
            let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
            Ok(pods.iter().all(|pod| phase(pod).as_deref() != Some("Running")).then_some(()))
        })
        .await?;
        explained(run, "logs").await?;
    }
    Ok(())
}
