//! Logs of pods: followed while they run, or read when they have ended.

use super::Trial;
use crate::wait::until_found;
use anyhow::{Context as _, Result};
use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::LogParams;
use std::time::Duration;

/// Follows the log of the lead's runner container, line by line, until it ends.
pub async fn follow_lead(
    trial: &Trial,
    name: &str,
    deadline: Duration,
    mut line_seen: impl FnMut(&str),
) -> Result<()> {
    let parameters =
        LogParams { container: Some(name.to_owned()), follow: true, ..LogParams::default() };
    let stream = until_found(&format!("the lead of {name} to start"), deadline, async || {
        let Some(lead) = trial.pod(name, 0).await? else { return Ok(None) };
        // A container that has not started has no log.
        Ok(trial.api::<Pod>().log_stream(&lead.name_any(), &parameters).await.ok())
    })
    .await?;
    let mut lines = stream.lines();
    while let Some(line) = lines.try_next().await.context("reading the log of the lead")? {
        line_seen(&line);
    }
    Ok(())
}

pub async fn container_log(trial: &Trial, pod: &Pod, container: &str) -> Result<String> {
    let parameters = LogParams { container: Some(container.to_owned()), ..LogParams::default() };
    let pod = pod.name_any();
    let log = trial.api::<Pod>().logs(&pod, &parameters).await;
    log.with_context(|| format!("reading the log of {container} in {pod}"))
}

/// The log of every container of a pod, by container name; instead of a log that cannot be read, the error.
pub async fn pod_logs(trial: &Trial, pod: &Pod) -> Vec<(String, String)> {
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|spec| spec.init_containers.as_ref()).into_iter().flatten();
    let containers = spec.map(|spec| &spec.containers).into_iter().flatten();
    let mut logs = Vec::new();
    for container in init.chain(containers) {
        let log = container_log(trial, pod, &container.name).await;
        let log = log.unwrap_or_else(|error| format!("(no log: {error:#})"));
        logs.push((container.name.clone(), log));
    }
    logs
}
