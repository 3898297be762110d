//! Whether the operator says why: what pods wait for, what an edit comes to, how a run has ended.

use crate::{DEADLINE, apply, complete, trial, until};
use anyhow::{Context as _, Result, ensure};
use e2e::trial::{Trial, condition};
use flux_operator::crd::{MiniCluster, State};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
    runtime::wait::await_condition,
};
use serde_json::json;

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
        trial.edit(&name, &json!({ "maxSize": 3, "size": 2 })).await?;
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
