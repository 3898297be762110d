//! Logs of pods: followed while they run, or read when they have ended.

use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, LogParams, WatchEvent, WatchParams},
};

use super::Trial;

/// Follows the log of the lead's runner container, line by line, until it ends.
pub async fn follow_lead(
    trial: &Trial,
    name: &str,
    deadline: Duration,
    mut line_seen: impl FnMut(&str),
) -> Result<()> {
    let pods = trial.api::<Pod>();
    let lead = tokio::time::timeout(deadline, started_lead(&pods, name))
        .await
        .with_context(|| format!("waited {} s for the lead of {name}", deadline.as_secs()))??;
    let parameters =
        LogParams { container: Some(name.to_owned()), follow: true, ..LogParams::default() };
    let stream = pods
        .log_stream(&lead, &parameters)
        .await
        .with_context(|| format!("following the log of {lead}"))?;
    let mut lines = stream.lines();
    while let Some(line) =
        lines.try_next().await.with_context(|| format!("reading the log of {lead}"))?
    {
        line_seen(&line);
    }
    Ok(())
}

/// The name of the lead's pod once its runner container runs or has ended.
async fn started_lead(pods: &Api<Pod>, name: &str) -> Result<String> {
    let selector =
        format!("batch.kubernetes.io/job-name={name},batch.kubernetes.io/job-completion-index=0");
    let list = pods
        .list(&ListParams::default().labels(&selector))
        .await
        .with_context(|| format!("listing the lead of {name}"))?;
    if let Some(pod) = list.items.iter().find(|pod| has_started(pod, name)) {
        return Ok(pod.name_any());
    }
    let version = list.metadata.resource_version.unwrap_or_default();
    let parameters = WatchParams::default().labels(&selector);
    let mut events = Box::pin(
        pods.watch(&parameters, &version)
            .await
            .with_context(|| format!("watching the lead of {name}"))?,
    );
    while let Some(event) =
        events.try_next().await.with_context(|| format!("watching the lead of {name}"))?
    {
        if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event
            && has_started(&pod, name)
        {
            return Ok(pod.name_any());
        }
    }
    anyhow::bail!("the watch of the lead of {name} ended before it started")
}

fn has_started(pod: &Pod, container: &str) -> bool {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let state = statuses
        .and_then(|statuses| statuses.iter().find(|status| status.name == container))
        .and_then(|status| status.state.as_ref());
    state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
}

/// The log of every container of a pod, by container name; what cannot be read says why.
pub async fn pod_logs(trial: &Trial, pod: &Pod) -> Vec<(String, String)> {
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|spec| spec.init_containers.as_ref()).into_iter().flatten();
    let containers = spec.map(|spec| &spec.containers).into_iter().flatten();
    let names: Vec<String> =
        init.chain(containers).map(|container| container.name.clone()).collect();
    let mut logs = Vec::new();
    for container in names {
        let parameters = LogParams { container: Some(container.clone()), ..LogParams::default() };
        let log = match trial.api::<Pod>().logs(&pod.name_any(), &parameters).await {
            Ok(log) => log,
            Err(error) => format!("(no log: {error})"),
        };
        logs.push((container, log));
    }
    logs
}
