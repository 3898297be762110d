//! `bench scale --waiting`: what MiniClusters cost at rest that wait in a queue, or for nodes.
//!
//! There are no nodes at all. The queue is played: no program runs on simulated nodes, so this one suspends the
//! Jobs, as Kueue does.

use super::load::Load;
use super::measure::create;
use crate::audit::{self, Audit};
use crate::bench::namespace::{self, News, Seen};
use crate::bench::operator::OperatorProgram;
use crate::environment::Environment;
use crate::progress::Progress;
use crate::trial::Trial;
use anyhow::{Context as _, Result};
use flux_operator::cluster::QUEUE_LABEL;
use flux_operator::crd::MiniCluster;
use futures::StreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Client, ResourceExt as _};
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_mins(40);
/// After this the operator asks for nothing more often than it ever will.
const CALM: Duration = Duration::from_mins(11);
/// How long its requests are counted: two of its longest pauses.
const MEASURED: Duration = Duration::from_mins(10);

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum WaitsFor {
    Queue,
    Nodes,
}

impl WaitsFor {
    pub(super) const ALL: [Self; 2] = [Self::Queue, Self::Nodes];

    fn objects(self, load: Load) -> Vec<DynamicObject> {
        let mut objects = load.objects();
        if self == Self::Queue {
            for object in &mut objects {
                object.labels_mut().insert(QUEUE_LABEL.to_owned(), "team".to_owned());
            }
        }
        objects
    }

    /// Whether a MiniCluster says that it waits, and for what.
    fn is_told_by(self, cluster: &Seen) -> bool {
        let status = &cluster.object.data["status"];
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        match self {
            Self::Queue => conditions.any(|it| it["reason"] == "InQueue"),
            Self::Nodes => status["reason"] == "Waiting",
        }
    }
}

/// What was found.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    waits_for: WaitsFor,
    #[serde(flatten)]
    load: Load,
    /// Every MiniCluster said so, after the first was created.
    told_seconds: f64,
    /// At rest, of all of them.
    requests_per_second: f64,
    /// How many of each kind there were.
    requests: BTreeMap<String, u64>,
}

/// Gives MiniClusters that wait to a new process of `program`.
pub(super) async fn measure(
    client: &Client,
    environment: &Environment,
    program: &OperatorProgram,
    waits_for: WaitsFor,
    load: Load,
    progress: &Progress,
) -> Result<Row> {
    let trial = Trial::begin(&environment.cluster, client, "waiting", &[]).await?;
    let kinds = [ApiResource::erase::<Job>(&()), ApiResource::erase::<MiniCluster>(&())];
    let mut news = namespace::watch(&trial, &kinds).await?;
    let mut operator = program.start(environment)?;
    operator.rest().await?;
    let begun = Instant::now();
    progress.say(&format!("{waits_for:?}: creating {} MiniClusters", load.miniclusters));
    tokio::try_join!(
        create(&trial, waits_for.objects(load)),
        all_tell(&mut news, &trial, waits_for, load),
    )?;
    let told_seconds = begun.elapsed().as_secs_f64();
    progress.say(&format!("{waits_for:?}: all wait; counting begins in {CALM:?}"));
    // The news that nobody takes any more would fill the memory.
    drop(news);
    tokio::time::sleep(CALM).await;
    operator.check()?;
    let cluster = environment.cluster.own().context("there is no audit log")?;
    let mut audit = Audit::from_now_on(&cluster.audit_log())?;
    tokio::time::sleep(MEASURED).await;
    operator.check()?;
    let answered = audit.operator()?;
    let requests = audit::count(&answered);
    // Who waits would be waited for by the next.
    trial.clean().await?;
    let requests_per_second = f64::from(u32::try_from(answered.len())?) / MEASURED.as_secs_f64();
    Ok(Row { waits_for, load, told_seconds, requests_per_second, requests })
}

/// Waits until each MiniCluster says what it waits for. Plays the queue where there is one.
async fn all_tell(news: &mut News, trial: &Trial, waits_for: WaitsFor, load: Load) -> Result<()> {
    let (begun, mut queued, mut told) = (Instant::now(), HashSet::new(), HashSet::new());
    while told.len() < usize::try_from(load.miniclusters)? {
        let rest = DEADLINE.saturating_sub(begun.elapsed());
        let next = tokio::time::timeout(rest, news.next()).await;
        let next = next.with_context(|| format!("only {} say that they wait", told.len()))?;
        let seen = next.context("the watch has ended")??;
        let name = seen.object.name_any();
        if !seen.is("Job") {
            let tells = waits_for.is_told_by(&seen);
            told.extend(tells.then_some(name));
        } else if waits_for == WaitsFor::Queue && queued.insert(name) {
            hold(trial, &seen.object).await?;
        }
    }
    Ok(())
}

/// Suspends a Job, as Kueue does.
async fn hold(trial: &Trial, job: &DynamicObject) -> Result<()> {
    let name = job.name_any();
    let suspend = Patch::Merge(json!({"spec": {"suspend": true}}));
    let held = trial.api::<Job>().patch(&name, &PatchParams::default(), &suspend).await;
    held.map(drop).with_context(|| format!("suspending Job {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;

    #[test]
    fn who_waits_says_for_what() {
        let queued = json!({"conditions": [{"reason": "InQueue"}]});
        for (waits_for, status, is_told) in [
            (WaitsFor::Queue, queued.clone(), true),
            (WaitsFor::Nodes, queued, false),
            (WaitsFor::Nodes, json!({"reason": "Waiting"}), true),
        ] {
            let object = json!({"metadata": {"name": "a"}, "status": status});
            let object = serde_json::from_value(object).unwrap();
            let seen = Seen { at: Timestamp::now(), kind: "MiniCluster".to_owned(), object };
            assert_eq!(waits_for.is_told_by(&seen), is_told, "{seen:?}");
        }
        let labelled = WaitsFor::Queue.objects(Load { miniclusters: 2, pods: 4 });
        assert!(labelled.iter().all(|object| object.labels().contains_key(QUEUE_LABEL)));
    }
}
