//! Looking at one container of an example: where it is, and what it has said.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt as _,
    api::{ListParams, LogParams},
};

use crate::trial::Trial;

/// How long a line may take to appear in a log.
const DEADLINE: Duration = Duration::from_mins(2);
/// How long to wait between two looks.
const INTERVAL: Duration = Duration::from_millis(200);

/// One container of one pod of one MiniCluster.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Name of the MiniCluster.
    pub(super) minicluster: String,
    /// Index of one of its pods.
    pub(super) pod: u32,
    /// Name of the container, if it is not the pod's main one.
    pub(super) container: Option<String>,
}

impl Place {
    /// The container of the lead that runs Flux.
    pub(super) fn lead(minicluster: &str) -> Self {
        Self { minicluster: minicluster.to_owned(), pod: 0, container: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "pod {} of the MiniCluster {}", self.pod, self.minicluster)?;
        match &self.container {
            Some(container) => write!(formatter, ", container {container}"),
            None => Ok(()),
        }
    }
}

/// Names of the pod and the container.
pub(super) async fn pod(trial: &Trial, place: &Place) -> Result<(String, String)> {
    let pod = newest_pod(trial, &place.minicluster, place.pod).await?.name_any();
    Ok((pod, place.container.clone().unwrap_or_else(|| place.minicluster.clone())))
}

async fn newest_pod(trial: &Trial, minicluster: &str, index: u32) -> Result<Pod> {
    let selector = format!(
        "batch.kubernetes.io/job-name={minicluster},batch.kubernetes.io/job-completion-index={index}"
    );
    let found = trial.api::<Pod>().list(&ListParams::default().labels(&selector)).await?;
    let newest = found.items.into_iter().max_by_key(|pod| pod.creation_timestamp().map(|at| at.0));
    newest.with_context(|| format!("there is no pod {index} of {minicluster}"))
}

/// What the container has said.
/// It fails where there is no such container, or it has not started.
pub(super) async fn log(trial: &Trial, place: &Place) -> Result<String> {
    let (pod, container) = pod(trial, place).await?;
    let parameters = LogParams { container: Some(container), ..LogParams::default() };
    let reading = || format!("reading the log of {pod}");
    trial.api::<Pod>().logs(&pod, &parameters).await.with_context(reading)
}

/// Waits until the container's log is as expected.
pub(super) async fn await_log(
    trial: &Trial,
    place: &Place,
    expected: &(dyn Fn(&str) -> bool + Sync),
) -> Result<()> {
    let begun = Instant::now();
    loop {
        let seen = match log(trial, place).await {
            Ok(log) if expected(&log) => return Ok(()),
            Ok(log) => format!("the log is:\n{log}"),
            Err(error) => format!("{error:#}"),
        };
        if begun.elapsed() >= DEADLINE {
            bail!("waited {} s; {seen}", DEADLINE.as_secs());
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
