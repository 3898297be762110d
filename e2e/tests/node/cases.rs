//! Cases that one cluster serves, one after the other.

use anyhow::Result;
use e2e::{
    environment::Environment,
    kubernetes::{Kubernetes, Options},
    progress::Progress,
    trial::{
        Trial,
        instance::{Instance, specification},
    },
};

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

    /// The MiniCluster of this name, which may not be there yet.
    pub(crate) fn named<'case>(
        &'case self,
        trial: &'case Trial,
        name: &'case str,
    ) -> Instance<'case> {
        Instance::named(self.environment, trial, name)
    }

    /// Applies a MiniCluster with these fields, whose only container has the usual image and `container`.
    pub(crate) async fn run<'case>(
        &'case self,
        trial: &'case Trial,
        name: &'case str,
        fields: &str,
        container: &str,
    ) -> Result<Instance<'case>> {
        let run = trial.named(name);
        run.apply(&specification(&[fields], container)).await?;
        Ok(run)
    }
}
