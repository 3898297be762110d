//! Whether the operator says why: what pods wait for, what an edit comes to, how a run has ended.

use crate::{DEADLINE, apply, complete, ready_lead, trial, until};
use anyhow::{Context as _, Result, ensure};
use e2e::trial::{Trial, condition, is_true};
use flux_operator::crd::{MiniCluster, State};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Node, Pod, Secret};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long after Kubernetes knows it the status must say why a pod does not start.
const TOLD_WITHIN: Duration = Duration::from_secs(15);

/// Waits until the condition `Progressing` says `words`, and returns its reason and message.
async fn progressing(trial: &Trial, name: &str, words: &str) -> Result<(String, String)> {
    let said = |cluster: Option<&MiniCluster>| {
        let condition = cluster.and_then(|cluster| condition(cluster, "Progressing"));
        condition.is_some_and(|(_, reason, message)| reason == words || message.contains(words))
    };
    let cluster = trial.await_minicluster(name, words, DEADLINE, said).await?;
    let (_, reason, message) = condition(&cluster, "Progressing").context("no Progressing")?;
    Ok((reason.to_owned(), message.to_owned()))
}

/// Changes fields of the specification as a user would.
pub(crate) async fn edit(trial: &Trial, name: &str, spec: &Value) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": spec }));
    let edited = trial.api::<MiniCluster>().patch(name, &PatchParams::default(), &patch).await;
    edited.with_context(|| format!("editing {name}"))?;
    Ok(())
}

/// Waits until an Event about `name` has that reason, and returns what it says.
pub(crate) async fn event(trial: &Trial, name: &str, reason: &str) -> Result<String> {
    let fields =
        format!("involvedObject.kind=MiniCluster,involvedObject.name={name},reason={reason}");
    until(&format!("an Event {reason} about {name}"), async || {
        let list = trial.api::<Event>().list(&ListParams::default().fields(&fields)).await?;
        Ok(list.items.into_iter().next().map(|event| event.message.unwrap_or_default()))
    })
    .await
}

/// More than half of the cpus that the node gives to pods, in thousandths.
async fn more_than_half_a_node(trial: &Trial) -> Result<u64> {
    let nodes: Api<Node> = Api::all(trial.client().clone());
    let node = nodes.list(&ListParams::default()).await?.items.into_iter().next();
    let allocatable = node.and_then(|node| node.status?.allocatable).context("no node")?;
    let cpu = &allocatable.get("cpu").context("the node has no cpu")?.0;
    let thousandths = match cpu.strip_suffix('m') {
        Some(thousandths) => thousandths.parse::<u64>()?,
        None => cpu.parse::<u64>()? * 1000,
    };
    Ok(thousandths * 6 / 10)
}

#[test]
#[ignore = "needs a cluster"]
fn workers_without_a_node_are_told_in_the_schedulers_words() {
    trial("greedy", &[], async |trial| {
        let cpu = more_than_half_a_node(trial).await?;
        let spec = format!(
            "{{size: 3, containers: [{{image: 'ubuntu:24.04', command: hostname, resources: {{requests: {{cpu: {cpu}m}}}}}}]}}"
        );
        let name = apply(trial, "greedy", &spec).await?;
        let (_, message) = progressing(trial, &name, "Insufficient cpu").await?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        ensure!(message.contains(" has no node: ") && message.contains("more pod"), "{message}");
        let named = message.split_whitespace().nth(1).unwrap_or_default();
        let pod: Pod = trial.api().get(named).await.context("reading the pod that is named")?;
        let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
        let scheduled = conditions.into_iter().find(|condition| condition.type_ == "PodScheduled");
        let known = scheduled.and_then(|it| it.last_transition_time).context("since when?")?;
        let known = u64::try_from(known.0.as_second())?;
        ensure!(now.saturating_sub(known) <= TOLD_WITHIN.as_secs(), "told {} s late", now - known);
        // What lasts is an Event too.
        let event = event(trial, &name, "Waiting").await?;
        ensure!(event.contains("Insufficient cpu"), "{event}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn a_volume_of_a_secret_that_does_not_exist_is_told_until_it_does() {
    trial("no-secret", &[], async |trial| {
        let spec = "{size: 2, containers: [{image: 'ubuntu:24.04', command: 'cat /credentials/token', volumes: {credentials: {path: /credentials, secretName: nosuch}}}]}";
        let name = apply(trial, "no-secret", spec).await?;
        let (_, message) = progressing(trial, &name, "\"nosuch\" not found").await?;
        ensure!(message.contains("FailedMount"), "{message}");
        let secret: Secret = serde_json::from_value(json!({
            "metadata": { "name": "nosuch" }, "stringData": { "token": "open sesame" },
        }))?;
        trial.api().create(&PostParams::default(), &secret).await.context("making the Secret")?;
        complete(trial, &name).await?;
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn an_invalid_edit_of_what_runs_hides_neither_the_run_nor_its_end() {
    trial("invalid-edit", &[], async |trial| {
        let spec = "{size: 2, containers: [{image: 'ubuntu:24.04', command: sleep 15}]}";
        let name = apply(trial, "invalid-edit", spec).await?;
        edit(trial, &name, &json!({ "flux": { "topology": "nonsense" } })).await?;
        let refused = |cluster: Option<&MiniCluster>| {
            let accepted = cluster.and_then(|cluster| condition(cluster, "Accepted"));
            accepted.is_some_and(|(status, _, message)| {
                status == "False" && message.contains("spec.flux.topology")
            })
        };
        trial.await_minicluster(&name, "refused", DEADLINE, refused).await?;
        // The edit may have come before anything was started: the first one is what runs.
        edit(trial, &name, &json!({ "flux": { "topology": null } })).await?;
        ready_lead(trial, &name).await?;
        edit(trial, &name, &json!({ "flux": { "topology": "nonsense" } })).await?;
        let cluster = trial.await_finished(&name, DEADLINE).await?;
        ensure!(is_true(&cluster, "Complete"), "{:?}", cluster.status);
        ensure!(refused(Some(&cluster)), "no word of the edit: {:?}", cluster.status);
        ensure!(cluster.status.and_then(|status| status.exit_code) == Some(0), "no exit code");
        Ok(())
    });
}

/// A MiniCluster that has run `true`.
async fn finished(trial: &Trial, name: &str) -> Result<String> {
    let spec = "{size: 1, containers: [{image: 'ubuntu:24.04', command: 'echo once'}]}";
    let name = apply(trial, name, spec).await?;
    complete(trial, &name).await?;
    Ok(name)
}

#[test]
#[ignore = "needs a cluster"]
fn what_has_finished_is_not_run_again_when_its_job_is_deleted_and_its_size_is_edited() {
    trial("once", &[], async |trial| {
        let name = finished(trial, "once").await?;
        let jobs = trial.api::<Job>();
        let uid = jobs.get(&name).await?.uid().unwrap_or_default();
        jobs.delete(&name, &DeleteParams::background()).await.context("deleting the Job")?;
        let gone =
            await_condition(jobs.clone(), &name, kube::runtime::wait::conditions::is_deleted(&uid));
        tokio::time::timeout(DEADLINE, gone).await.context("waiting for the Job to be gone")??;
        edit(trial, &name, &json!({ "maxSize": 3, "size": 2 })).await?;
        let (_, message) = progressing(trial, &name, "NotRunAgain").await?;
        ensure!(message.starts_with("nothing was run: "), "{message}");
        ensure!(jobs.get_opt(&name).await?.is_none(), "it was run again");
        let cluster = trial.api::<MiniCluster>().get(&name).await?;
        let status = cluster.status.context("no status")?;
        ensure!(status.state == Some(State::Complete), "{status:?}");
        ensure!(status.exit_code == Some(0), "{status:?}");
        Ok(())
    });
}

#[test]
#[ignore = "needs a cluster"]
fn an_edit_of_what_has_finished_says_that_nothing_was_run() {
    trial("edited", &[], async |trial| {
        let name = finished(trial, "edited").await?;
        let containers = json!([{ "image": "ubuntu:24.04", "command": "echo twice" }]);
        edit(trial, &name, &json!({ "containers": containers })).await?;
        let (_, message) = progressing(trial, &name, "NotRunAgain").await?;
        ensure!(message.contains("spec.containers[0].command"), "{message}");
        let event = event(trial, &name, "NotRunAgain").await?;
        ensure!(event == message, "{event}");
        Ok(())
    });
}
