//! Specifications that cannot work or could harm other users, and objects that the cluster refuses.

use crate::prelude::*;
use e2e::trial::minicluster;
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
    let long = "a-name-of-sixty-characters-which-is-more-than-fits-a-pod-host";
    let many = "size: 4, maxSize: 2, minSize: 9";
    let own = "name: own, ports: [8050]}, \
               {image: a, runFlux: true, resources: {limits: {cpu: four}}";
    let misspelt = "pod: {overlay: {priorityClasName: high}}";
    let cases: [(&str, &str, &str, &[&str]); 5] = [
        ("misspelt", misspelt, "", &["spec.pod.overlay.priorityClasName"]),
        (
            "own",
            "network: {headlessName: ok}",
            own,
            &["containers[0].name", "ports[0]", "limits[cpu]"],
        ),
        ("negative", "size: -1", "", &["size"]),
        (long, "size: 1", "", &["name"]),
        ("many", many, both, &["maxSize", "minSize", "launcher", "batch"]),
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

/// Specifications that once stopped the operator, or nearly; each for a pod that no node takes.
#[test]
#[ignore = "needs a cluster"]
fn hostile_specifications_harm_nobody() {
    trial("hostile", async |trial| {
        let deep = (0..120).fold(json!({}), |inner, _| json!({ "a": inner }));
        let deletes = "\u{7f}".repeat(65_000);
        let texts = json!({
            "command": deletes, "preCommand": deletes, "environment": { "A": deletes },
        });
        let specifications = [
            json!({ "maxSize": 100_000, "containers": [{}] }),
            json!({ "pod": { "overlay": deep }, "containers": [{}] }),
            json!({ "containers": [texts] }),
        ];
        let operator = trial.operator_pods()?;
        let mut accepted = 0;
        for (index, mut spec) in specifications.into_iter().enumerate() {
            spec["size"] = json!(1);
            spec["pod"]["nodeSelector"] = json!({ "e2e.invalid/none": "none" });
            spec["containers"][0]["image"] = json!("hostile.invalid/none:1");
            let manifest = minicluster(&format!("hostile-{index}"), &spec.to_string());
            // The API server may refuse one, too.
            accepted += usize::from(trial.apply(&manifest).await.is_ok());
        }
        // The operator has to answer each.
        let answered = "-ojsonpath={.items[*].status.conditions[?(@.type==\"Accepted\")].status}";
        let answers = wait_for("the operator's answers", async || {
            let answers = trial.kubectl(&["get", "miniclusters", answered])?;
            Ok((answers.split_whitespace().count() == accepted).then_some(answers))
        })
        .await?;
        ensure!(answers.contains("True"), "{answers}");
        trial.run("other", "size: 2", "command: hostname").await?.complete().await?;
        let after = trial.operator_pods()?;
        ensure!(operator == after, "the operator was {operator:?} and is {after:?}");
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
