//! What cannot be, and what a cluster does not let be.

use crate::{DEADLINE, apply, complete, trial};
use anyhow::{Context as _, Result, ensure};
use e2e::trial::{Trial, condition};
use flux_operator::crd::MiniCluster;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

#[test]
#[ignore = "needs a cluster"]
fn what_cannot_be_is_refused_with_every_fault_named() {
    const IMAGE: &str = "image: 'ubuntu:24.04'";
    let cases = [
        ("negative", format!("{{size: -1, containers: [{{{IMAGE}}}]}}"), vec!["size"]),
        (
            "two-runners",
            format!(
                "{{size: 1, containers: [{{{IMAGE}, runFlux: true}}, {{{IMAGE}, name: b, runFlux: true}}]}}"
            ),
            vec!["runFlux"],
        ),
        ("smaller", format!("{{size: 4, maxSize: 2, containers: [{{{IMAGE}}}]}}"), vec!["maxSize"]),
        (
            "a-name-of-sixty-characters-which-is-more-than-fits-a-pod-host",
            format!("{{size: 1, containers: [{{{IMAGE}}}]}}"),
            vec!["name"],
        ),
        (
            "both",
            format!(
                "{{size: 1, containers: [{{{IMAGE}, launcher: true, batch: true, command: a}}]}}"
            ),
            vec!["launcher", "batch"],
        ),
        (
            "many",
            format!(
                "{{size: 4, maxSize: 2, minSize: 9, containers: [{{{IMAGE}, launcher: true, batch: true, command: a}}]}}"
            ),
            vec!["maxSize", "minSize", "launcher"],
        ),
    ];
    trial("refused", &[], async |trial| {
        for (name, spec, words) in &cases {
            let refusal = refusal(trial, name, spec).await?;
            for word in words {
                ensure!(refusal.contains(word), "{name}: {word} is not named in: {refusal}");
            }
        }
        Ok(())
    });
}

/// What the API server or the operator says against a specification.
async fn refusal(trial: &Trial, name: &str, spec: &str) -> Result<String> {
    let applied = match apply(trial, name, spec).await {
        Ok(applied) => applied,
        Err(error) => return Ok(format!("{error:#}")),
    };
    let refused = |cluster: Option<&MiniCluster>| {
        cluster.and_then(|cluster| condition(cluster, "Accepted")).is_some_and(|c| c.0 == "False")
    };
    let cluster = trial.await_minicluster(&applied, "refused", DEADLINE, refused).await?;
    let (_, _, message) = condition(&cluster, "Accepted").context("no condition Accepted")?;
    Ok(message.to_owned())
}

/// Waits until `Progressing` is false for this reason, and returns its message.
async fn not_progressing(trial: &Trial, name: &str, reason: &str) -> Result<String> {
    let expected = |cluster: Option<&MiniCluster>| {
        let condition = cluster.and_then(|cluster| condition(cluster, "Progressing"));
        condition.is_some_and(|(status, found, _)| status == "False" && found == reason)
    };
    let cluster = trial.await_minicluster(name, reason, DEADLINE, expected).await?;
    let (_, _, message) = condition(&cluster, "Progressing").context("no condition Progressing")?;
    Ok(message.to_owned())
}

#[test]
#[ignore = "needs a cluster"]
fn a_field_of_the_overlay_that_the_api_server_does_not_know_is_refused_by_its_name() {
    trial("misspelt", &[], async |trial| {
        let spec = "{size: 1, pod: {overlay: {priorityClasName: high}}, containers: [{image: 'ubuntu:24.04', command: id}]}";
        let name = apply(trial, "misspelt", spec).await?;
        let message = not_progressing(trial, &name, "ApplyFailed").await?;
        let words = "unknown field \"spec.template.spec.priorityClasName\"";
        ensure!(message.contains(words), "{message}");
        ensure!(trial.api::<Job>().get_opt(&name).await?.is_none(), "there is a Job");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn what_kubernetes_refuses_in_a_job_is_told_in_its_words() {
    const IMAGE: &str = "image: 'ubuntu:24.04', command: id";
    let cases = [
        ("label", format!("{{pod: {{labels: {{'a b': c}}}}, containers: [{{{IMAGE}}}]}}"), "a b"),
        (
            "quantity",
            format!("{{containers: [{{{IMAGE}, resources: {{limits: {{cpu: four}}}}}}]}}"),
            "quantities must match",
        ),
        (
            "policy",
            format!("{{pod: {{restartPolicy: Always}}, containers: [{{{IMAGE}}}]}}"),
            "spec.template.spec.restartPolicy",
        ),
    ];
    trial("by-kubernetes", &[], async |trial| {
        for (name, spec, words) in &cases {
            let name = apply(trial, name, spec).await?;
            let message = not_progressing(trial, &name, "ApplyFailed").await?;
            ensure!(message.contains(words), "{name}: {words} is not named in: {message}");
        }
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn pods_that_a_quota_refuses_are_told_and_made_when_it_is_lifted() {
    trial("quota", &[], async |trial| {
        let quotas = trial.api::<ResourceQuota>();
        let quota = serde_json::from_value(json!({
            "metadata": { "name": "few" }, "spec": { "hard": { "pods": "1" } },
        }))?;
        quotas.create(&PostParams::default(), &quota).await.context("making a quota")?;
        let spec = "{size: 2, containers: [{image: 'ubuntu:24.04', command: hostname}]}";
        let name = apply(trial, "quota", spec).await?;
        let message = not_progressing(trial, &name, "PodsRefused").await?;
        ensure!(message.contains("exceeded quota: few"), "told: {message}");
        quotas.delete("few", &DeleteParams::default()).await.context("lifting the quota")?;
        complete(trial, &name).await?;
        Ok(())
    });
}
