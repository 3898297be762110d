//! Faults that happen to the pods of a MiniCluster: nothing is lost, doubled or stuck, and the status says what
//! happened.

mod lead;
mod storage;
mod view;
mod way;
mod worker;

use crate::{apply, exec, until};
use anyhow::{Context as _, Result, ensure};
use e2e::trial::{Trial, logs::container_log};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Event, Pod};
use kube::{ResourceExt as _, api::ListParams};
use serde_json::Value;

const FLUX: &str = "/mnt/flux/bin/flux";
const AGENT: &str = "/mnt/flux/bin/flux-agent";

/// Waits until the runner in the newest pod of that index has printed `text`, and returns the pod.
pub(crate) async fn said(trial: &Trial, name: &str, index: u32, text: &str) -> Result<Pod> {
    until(&format!("{text:?} in the log of {name}-{index}"), async || {
        let Some(pod) = trial.pod(name, index).await? else { return Ok(None) };
        // While its container starts it has no log.
        let log = container_log(trial, &pod, name).await.unwrap_or_default();
        Ok(log.contains(text).then_some(pod))
    })
    .await
}

/// Lets what waits for the file `/tmp/go` in the newest pod of that index go on.
pub(crate) async fn go(trial: &Trial, name: &str, index: u32) -> Result<()> {
    let pod = trial.pod(name, index).await?.context("no such pod")?.name_any();
    exec(trial, &pod, name, &["touch", "/tmp/go"]).map(drop)
}

/// How many pods the Job has made.
async fn pods_made(trial: &Trial, name: &str) -> Result<usize> {
    let fields =
        format!("involvedObject.kind=Job,involvedObject.name={name},reason=SuccessfulCreate");
    let events = trial.api::<Event>().list(&ListParams::default().fields(&fields)).await?.items;
    Ok(events.len())
}

/// How the container `name` of the pod has ended, if it has.
pub(crate) fn end_of<'pod>(pod: &'pod Pod, name: &str) -> Option<&'pod ContainerStateTerminated> {
    let status = pod.status.as_ref()?;
    let main = status.container_statuses.iter().flatten();
    let mut all = main.chain(status.init_container_statuses.iter().flatten());
    all.find(|container| container.name == name)?.state.as_ref()?.terminated.as_ref()
}

/// What the agent of the pod says of its run.
pub(crate) fn agent_status(trial: &Trial, pod: &str, name: &str) -> Result<Value> {
    let answer = exec(trial, pod, name, &[AGENT, "status", "--output", "json"])?;
    serde_json::from_str(&answer).with_context(|| format!("reading {answer}"))
}

/// Kills the broker of the pod; its agent goes on.
fn kill_broker(trial: &Trial, pod: &str, name: &str) -> Result<()> {
    let process = exec(trial, pod, name, &[FLUX, "getattr", "broker.pid"])?;
    exec(trial, pod, name, &["sh", "-c", &format!("kill -9 {process}")]).map(drop)
}

/// Fails unless `log` has each of `lines` once.
pub(crate) fn each_once(log: &str, lines: &[&str]) -> Result<()> {
    for line in lines {
        let times = log.lines().filter(|it| it.trim() == *line).count();
        ensure!(times == 1, "{line} stands {times} times in the log:\n{log}");
    }
    Ok(())
}

/// Applies a MiniCluster of the image that most tests use: `more` are further fields of its specification, and
/// `container` of its container.
async fn run(trial: &Trial, name: &str, more: &str, container: &str) -> Result<String> {
    let spec = format!("{{{more}, containers: [{{image: 'ubuntu:24.04', {container}}}]}}");
    apply(trial, name, &spec).await
}
