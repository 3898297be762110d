//! One run of a contender: applied, watched to its end, removed with its namespace.

use super::containerd::Containerd;
use super::contender::{Contender, RunSpec};
use super::recording::{END_IN_STATUS, POD_ENDED, Recording};
use crate::namespace;
use e2e::prelude::*;
use futures::StreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::jiff::Timestamp;
use kube::discovery::ApiResource;
use procfs::{CpuTime, CurrentSI as _, KernelStats};
use serde::Serialize;
use std::collections::BTreeMap;

/// A run that takes longer has failed.
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
    /// Processor seconds of the machine, from there until the end was reported.
    pub(super) processor_seconds: f64,
}

impl Run {
    /// When the lead ended.
    pub(super) fn end(&self) -> Option<f64> {
        self.milestones.get(POD_ENDED).copied()
    }

    /// When its object reported that all is done.
    pub(super) fn reported(&self) -> Option<f64> {
        self.milestones.get(self.contender.reported()).copied()
    }

    /// The seconds from the end in the pod's status to the report of this project's operator.
    pub(super) fn reported_after_status(&self) -> Option<f64> {
        let known = self.milestones.get(END_IN_STATUS).filter(|_| self.contender.is_ours())?;
        Some(self.reported()? - known)
    }
}

/// A cluster where contenders run, and its containerd.
#[derive(Debug)]
pub(super) struct MeasuredCluster {
    environment: Environment,
    containerd: Containerd,
}

impl MeasuredCluster {
    pub(super) fn of(environment: Environment) -> Result<Self> {
        Ok(Self { containerd: Containerd::listen(&environment)?, environment })
    }

    /// Runs it once, in a namespace of its own, and waits until the namespace is gone.
    pub(super) fn run(&self, wanted: RunSpec<'_>, round: usize) -> Result<Run> {
        let trial = self.environment.trial("bench", async |trial| {
            let run = self.measure(trial, wanted, round).await?;
            Ok((run, format!("namespace/{}", trial.namespace())))
        });
        let named = || format!("{}, {} pods", wanted.contender.name(), wanted.size);
        let (run, namespace) = trial.with_context(named)?;
        self.environment.kubectl(&["wait", "--for=delete", &namespace, "--timeout=5m"])?;
        Ok(run)
    }

    async fn measure(&self, trial: &Trial, wanted: RunSpec<'_>, round: usize) -> Result<Run> {
        let RunSpec { contender, size, .. } = wanted;
        let reported = contender.reported();
        let of_kubernetes = [ApiResource::erase::<Pod>(&()), ApiResource::erase::<Job>(&())];
        let resources: Vec<_> = of_kubernetes.into_iter().chain(contender.resource()).collect();
        let mut news = namespace::watch(trial, &resources).await?;
        let work_before = work_so_far()?;
        let mut recording = Recording { begun: Timestamp::now(), ..Recording::default() };
        let end = async {
            let mut work = None;
            while recording.end(reported).is_none() {
                recording.seen.push(news.next().await.context("nothing is watched")??);
                if work.is_none() && recording.reached(reported).is_some() {
                    work = Some(work_so_far()?.saturating_sub(work_before));
                }
            }
            ensure!(recording.end(reported) == Some(true), "it failed");
            work.context("nothing was reported")
        };
        let end = async { tokio::time::timeout(DEADLINE, end).await.context("it does not end")? };
        let ((), work) = tokio::try_join!(create_all(trial, wanted), end)?;
        recording.tasks = self.containerd.events()?;
        let milestones = recording.milestones();
        let has_ended = milestones.contains_key(POD_ENDED);
        ensure!(has_ended, "containerd has not reported when the lead ended");
        Ok(Run { contender, size, round, milestones, processor_seconds: work.as_secs_f64() })
    }
}

/// The processor time of all processes since the machine was started.
fn work_so_far() -> Result<Duration> {
    let statistics = KernelStats::current().context("reading the processors' times")?;
    Ok(work(&statistics.total))
}

fn work(times: &CpuTime) -> Duration {
    let interrupts = [times.irq_duration(), times.softirq_duration()].into_iter().flatten();
    let programs = [times.user_duration(), times.nice_duration(), times.system_duration()];
    interrupts.chain(programs).sum()
}

async fn create_all(trial: &Trial, wanted: RunSpec<'_>) -> Result<()> {
    for object in wanted.objects()? {
        namespace::create(trial, &object).await?;
    }
    Ok(())
}
