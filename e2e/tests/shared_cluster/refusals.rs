//! Specifications that cannot work, and objects that the cluster refuses.

use crate::{Instance, Trial, specification, trial};
use anyhow::{Result, ensure};
use k8s_openapi::api::batch::v1::Job;

/// Why the API server or the operator refuses a specification.
async fn refusal(trial: &Trial, name: &str, spec: &str) -> Result<String> {
    match trial.start(name, spec).await {
        Ok(run) => {
            let condition = run.await_condition("Accepted", "").await?;
            ensure!(condition.status == "False", "{name} is accepted: {condition:?}");
            Ok(condition.message)
        }
        Err(error) => Ok(format!("{error:#}")),
    }
}

#[test]
#[ignore = "needs a cluster"]
fn what_cannot_be_is_refused_with_every_fault_named() {
    let both = "launcher: true, batch: true, command: a";
    let two = "runFlux: true}, {image: 'ubuntu:24.04', name: b, runFlux: true";
    let long = "a-name-of-sixty-characters-which-is-more-than-fits-a-pod-host";
    let many = "size: 4, maxSize: 2, minSize: 9";
    let label = "pod: {labels: {'a b': c}, restartPolicy: Always}";
    let twins = "runFlux: true}, {image: a, name: web, ports: [80, 80]}, {image: a, name: web";
    let own = "ports: [8050]}, {image: a, runFlux: true, resources: {limits: {cpu: four}}";
    let own = format!("name: own, {own}");
    let misspelt = "pod: {overlay: {priorityClasName: high}}";
    let cases: [(&str, &str, &str, &[&str]); 11] = [
        ("misspelt", misspelt, "", &["spec.pod.overlay.priorityClasName"]),
        ("label", "pod: {labels: {'a b': c}}", "", &["spec.pod.labels[a b]"]),
        ("policy", label, "", &["restartPolicy"]),
        ("twins", "size: 1", twins, &["spec.containers[1].ports"]),
        (
            "own",
            "network: {headlessName: ok}",
            &own,
            &["containers[0].name", "ports[0]", "limits[cpu]"],
        ),
        ("negative", "size: -1", "", &["size"]),
        ("two-runners", "size: 1", two, &["runFlux"]),
        ("smaller", "size: 4, maxSize: 2", "", &["maxSize"]),
        (long, "size: 1", "", &["name"]),
        ("both", "size: 1", both, &["launcher", "batch"]),
        ("many", many, both, &["maxSize", "minSize", "launcher"]),
    ];
    trial("refused", async |trial| {
        for (name, fields, container, words) in cases {
            let refusal = refusal(trial, name, &specification(&[fields], container)).await?;
            for word in words {
                ensure!(refusal.contains(word), "{name}: {word} is not named in: {refusal}");
            }
        }
        Ok(())
    });
}

/// Waits until `Progressing` is false for this reason, with these words in the message.
async fn stops(run: &Instance<'_>, reason: &str, words: &str) -> Result<()> {
    let condition = run.await_condition("Progressing", reason).await?;
    ensure!(
        condition.status == "False" && condition.message.contains(words),
        "{}: {condition:?}",
        run.name
    );
    Ok(())
}

#[test]
#[ignore = "needs a cluster"]
fn the_status_has_the_message_of_a_refused_job() {
    trial("by-kubernetes", async |trial| {
        let run = trial.run("user", "size: 1", "securityContext: {runAsUser: -1}").await?;
        stops(&run, "ApplyFailed", "securityContext.runAsUser").await?;
        ensure!(trial.api::<Job>().get_opt("user").await?.is_none(), "there is a Job");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn pods_refused_by_a_quota_are_named_and_made_later() {
    trial("quota", async |trial| {
        trial.kubectl(&["create", "quota", "few", "--hard=pods=1"])?;
        let run = trial.run("quota", "size: 2", "command: hostname").await?;
        stops(&run, "PodsRefused", "exceeded quota: few").await?;
        run.kubectl(&["delete", "quota", "few"])?;
        run.complete().await.map(drop)
    });
}
