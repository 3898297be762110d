//! What is seen of the pods while they run.

use crate::{DEADLINE, apply, ready_lead, trial};
use anyhow::{Context as _, Result, bail, ensure};
use e2e::trial::{Trial, logs::follow_lead};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, runtime::wait::await_condition};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// Waits until the pod has the label `job-index` of that value.
async fn await_index(trial: &Trial, pod: &str, index: &str) -> Result<()> {
    let has = |pod: Option<&Pod>| {
        pod.is_some_and(|pod| pod.labels().get("job-index").is_some_and(|value| value == index))
    };
    let waiting = await_condition(trial.api::<Pod>(), pod, has);
    let waited = tokio::time::timeout(DEADLINE, waiting).await;
    waited.with_context(|| format!("waiting for the label job-index={index} of {pod}"))??;
    Ok(())
}

#[test]
#[ignore = "needs a cluster"]
fn the_lead_has_its_index_as_a_label_and_so_has_the_pod_of_services() {
    trial("labels", &[], async |trial| {
        let spec = "{size: 2, interactive: true, containers: [{image: 'ubuntu:24.04'}], services: [{image: 'ubuntu:24.04', name: clock, command: sleep 600}]}";
        let name = apply(trial, "labels", spec).await?;
        ready_lead(trial, &name).await?;
        let pods = trial.pods(&name).await?;
        ensure!(pods.len() == 2, "{} pods", pods.len());
        await_index(trial, &pods[0].name_any(), "0").await?;
        await_index(trial, "labels-services", "services").await
    });
}

/// What the lead says, up to the first line that has `end` in it.
async fn lead_says(trial: &Trial, name: &str, end: &str) -> Result<Vec<String>> {
    let (said, ended) = (Arc::new(Mutex::new(Vec::new())), Notify::new());
    let following = follow_lead(trial, name, DEADLINE, |line| {
        said.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
        if line.contains(end) {
            ended.notify_one();
        }
    });
    tokio::select! {
        followed = following => {
            followed?;
            bail!("the lead of {name} ended before it said {end:?}: {said:?}")
        }
        () = ended.notified() => {}
        () = tokio::time::sleep(DEADLINE) => {
            bail!("waited {} s for {end:?}; the lead said {said:?}", DEADLINE.as_secs())
        }
    }
    let said = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(said)
}

#[test]
#[ignore = "needs a cluster"]
fn diagnostics_say_how_the_instance_stands_and_keep_it_up() {
    trial("diagnostics", &[], async |trial| {
        let spec = "{size: 2, containers: [{image: 'ubuntu:24.04', diagnostics: true}]}";
        let name = apply(trial, "diagnostics", spec).await?;
        let said = lead_says(trial, &name, "== the instance stays up").await?;
        for line in ["== which brokers are connected: ", "== whether a job runs: "] {
            ensure!(said.iter().any(|said| said.starts_with(line)), "no {line:?} in {said:#?}");
        }
        ensure!(said.iter().any(|line| line == "diagnostics-[0-1]"), "no hosts in {said:#?}");
        // The broker speaks in between. The stand-in knows some of the questions only, and says so.
        let is_brokers = |line: &&String| line.starts_with('<');
        let answers: Vec<&String> = said.iter().filter(|line| !is_brokers(line)).collect();
        let has_failed = |lines: &[&String]| {
            lines[1].starts_with("== failed")
                && !lines[0].ends_with("not simulated by the stand-in")
        };
        ensure!(!answers.windows(2).any(has_failed), "a question failed: {said:#?}");
        ready_lead(trial, &name).await?;
        Ok(())
    });
}
