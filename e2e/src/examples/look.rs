//! Looking at one container of an example: where it is, and what it has said.

use std::{fmt, time::Duration};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;

use crate::{
    trial::{Trial, logs::container_log},
    wait::until_found,
};

/// No step of an example takes nearly as long.
pub(super) const DEADLINE: Duration = Duration::from_mins(2);

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

    /// The name of the container.
    pub(super) fn container(&self) -> &str {
        self.container.as_ref().unwrap_or(&self.minicluster)
    }

    /// The pod that there is now.
    pub(super) async fn pod(&self, trial: &Trial) -> Result<Pod> {
        let pod = trial.pod(&self.minicluster, self.pod).await?;
        pod.with_context(|| format!("there is no {self}"))
    }

    /// What the container has said.
    pub(super) async fn log(&self, trial: &Trial) -> Result<String> {
        container_log(trial, &self.pod(trial).await?, self.container()).await
    }

    /// Waits until the container's log is as expected.
    pub(super) async fn await_log(
        &self,
        trial: &Trial,
        expected: &(dyn Fn(&str) -> bool + Sync),
    ) -> Result<()> {
        let mut seen = String::new();
        let found = until_found("the log", DEADLINE, async || {
            seen = match self.log(trial).await {
                Ok(log) if expected(&log) => return Ok(Some(())),
                Ok(log) => format!("the log is:\n{log}"),
                Err(error) => format!("{error:#}"),
            };
            Ok(None)
        });
        found.await.with_context(|| seen)
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
