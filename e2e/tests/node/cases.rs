//! Cases that one cluster serves, one after the other.

use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::{
    environment::Environment,
    kubernetes::{Kubernetes, Options},
    progress::Progress,
    trial::Trial,
    wait,
};
use k8s_openapi::api::core::v1::Pod;

/// What is waited for is there long before.
pub(crate) const DEADLINE: Duration = Duration::from_mins(3);
/// The agent that plays `flux`.
pub(crate) const FLUX: &str = "/mnt/flux/bin/flux";

/// The cluster, with all that stands on it.
pub(crate) struct Cases<'run> {
    pub(crate) environment: &'run Environment,
    pub(crate) cluster: &'run Kubernetes,
    pub(crate) options: &'run Options,
    pub(crate) progress: &'run Progress,
}

impl Cases<'_> {
    /// Runs one case in a namespace of its own. What it has done to the cluster when it fails would fail those
    /// after it.
    pub(crate) fn case(
        &self,
        purpose: &str,
        case: impl AsyncFn(&Self, &Trial) -> Result<()> + Send + Sync,
    ) -> Result<()> {
        self.progress.step(purpose, || {
            self.environment.trial(purpose, &[], async |trial| case(self, trial).await)
        })
    }

    pub(crate) fn kubectl(&self, words: &[&str]) -> Result<String> {
        self.environment.kubectl(words)
    }

    /// What `words` print in the runner of a pod.
    pub(crate) fn exec(
        &self,
        trial: &Trial,
        name: &str,
        pod: &str,
        words: &[&str],
    ) -> Result<String> {
        let into = ["exec", pod, "--namespace", trial.namespace(), "--container", name, "--"];
        self.kubectl(&[&into[..], words].concat())
    }

    /// Waits until Flux counts so many brokers as up, of those without a job.
    pub(crate) async fn await_up(&self, trial: &Trial, name: &str, wanted: &str) -> Result<()> {
        until(&format!("{wanted} brokers of {name}"), async || {
            // While a lead starts there is nobody to ask.
            let Ok(lead) = pod(trial, name, 0).await else { return Ok(None) };
            let list = [FLUX, "resource", "list", "--states=free", "-no", "{nnodes}"];
            let lead = lead.metadata.name.unwrap_or_default();
            let counted = self.exec(trial, name, &lead, &list).unwrap_or_default();
            Ok((counted.trim() == wanted).then_some(()))
        })
        .await
    }
}

/// The newest pod of that index.
pub(crate) async fn pod(trial: &Trial, name: &str, index: u32) -> Result<Pod> {
    let found = trial.pod(name, index).await?;
    found.with_context(|| format!("{name} has no pod of index {index}"))
}

/// Waits until `look` has what it looks for.
pub(crate) async fn until<T>(
    what: &str,
    look: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    wait::until_found(what, DEADLINE, look).await
}

/// How many lines of what a command has printed are this one.
pub(crate) fn times(log: &str, line: &str) -> usize {
    log.lines().filter(|it| it.trim() == line).count()
}
