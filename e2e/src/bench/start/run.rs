//! One run of a contender: applied, watched to its end, removed with its namespace.

use super::containerd::Containerd;
use super::contender::{Contender, Wanted};
use super::recording::{POD_ENDED, Recording};
use crate::bench::namespace;
use crate::environment::Environment;
use crate::trial::Trial;
use anyhow::{Context as _, Result, ensure};
use flux_operator::crd::MiniCluster;
use futures::StreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Api, ResourceExt as _};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A run that takes longer does not end.
const DEADLINE: Duration = Duration::from_mins(5);

/// A run and what was measured of it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Run {
    pub(super) contender: Contender,
    pub(super) size: u32,
    /// From 0.
    pub(super) round: usize,
    /// Seconds from the first object's creation.
    pub(super) milestones: BTreeMap<&'static str, f64>,
}

/// A cluster where contenders run, and its containerd.
#[derive(Debug)]
pub(super) struct Place {
    environment: Environment,
    containerd: Containerd,
}

impl Place {
    pub(super) fn of(environment: Environment) -> Result<Self> {
        Ok(Self { containerd: Containerd::listen(&environment)?, environment })
    }

    /// Runs what is wanted once, in a namespace of its own, and waits until that is gone.
    pub(super) fn run(&self, wanted: Wanted<'_>, round: usize) -> Result<Run> {
        let trial = self.environment.trial("bench", &[], async |trial| {
            let run = self.measure(trial, wanted, round).await?;
            Ok((run, format!("namespace/{}", trial.namespace())))
        });
        let named = || format!("{}, {} pods", wanted.contender.name(), wanted.size);
        let (run, namespace) = trial.with_context(named)?;
        self.environment.kubectl(&["wait", "--for=delete", &namespace, "--timeout=5m"])?;
        Ok(run)
    }

    async fn measure(&self, trial: &Trial, wanted: Wanted<'_>, round: usize) -> Result<Run> {
        let Wanted { contender, size, .. } = wanted;
        let has_minicluster = contender.is_ours();
        let ours = has_minicluster.then(|| ApiResource::erase::<MiniCluster>(&()));
        let of_kubernetes = [ApiResource::erase::<Pod>(&()), ApiResource::erase::<Job>(&())];
        let resources: Vec<_> = of_kubernetes.into_iter().chain(ours).collect();
        let mut news = namespace::watch(trial, &resources).await?;
        let mut recording = Recording { begun: Timestamp::now(), ..Recording::default() };
        let end = async {
            while recording.end(has_minicluster).is_none() {
                recording.seen.push(news.next().await.context("nothing is watched")??);
            }
            ensure!(recording.end(has_minicluster) == Some(true), "it failed");
            Ok(())
        };
        let end = async { tokio::time::timeout(DEADLINE, end).await.context("it does not end")? };
        tokio::try_join!(create_all(trial, wanted), end)?;
        recording.tasks = self.containerd.events()?;
        let milestones = recording.milestones();
        let has_ended = milestones.contains_key(POD_ENDED);
        ensure!(has_ended, "containerd has not reported when the lead ended");
        Ok(Run { contender, size, round, milestones })
    }
}

async fn create_all(trial: &Trial, wanted: Wanted<'_>) -> Result<()> {
    for object in wanted.objects()? {
        let types = object.types.as_ref().context("an object has no kind")?;
        let kind = GroupVersionKind::try_from(types).context("reading an object's kind")?;
        let resource = ApiResource::from_gvk(&kind);
        let api = Api::namespaced_with(trial.client().clone(), trial.namespace(), &resource);
        let made = api.create(&PostParams::default(), &object).await;
        made.with_context(|| format!("creating {}", object.name_any()))?;
    }
    Ok(())
}
