//! One measurement: an operator that has nothing to do is given many MiniClusters at once.

use super::load::{Bench, HOLD, Load};
use crate::namespace::{self, Observations, Observed, PAUSE};
use crate::operator::{Memory, Operator};
use e2e::audit::{Audit, Request};
use e2e::prelude::*;
use flux_contract::labels::{COMPLETION_INDEX, JOB_NAME};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::batch::v1::Job;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Requests of this program under way at the same time.
pub(super) const AT_ONCE: usize = 32;
const DEADLINE: Duration = Duration::from_mins(40);

/// The result of one measurement. Seconds are those since the first MiniCluster was created.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    load: Load,
    /// Every Job was there.
    jobs_seconds: f64,
    /// The last Job was complete.
    complete_seconds: f64,
    /// Of the operator for each MiniCluster, until it had nothing to do.
    processor_milliseconds_each: f64,
    /// From the first MiniCluster until the operator had nothing to do. A watch counts once it has ended.
    requests_each: f64,
    /// Those that may change something.
    writes_each: f64,
    /// How many of each kind there were for all MiniClusters.
    requests: BTreeMap<String, u64>,
    /// Before the first MiniCluster was created.
    memory_before_mib: Memory,
    /// When the operator had nothing to do any more.
    memory_after_mib: Memory,
}

/// Gives `load` to a new process of `program`.
pub(super) async fn measure(
    client: &Client,
    Bench { environment, program }: Bench<'_>,
    load: Load,
) -> Result<Row> {
    let what = format!("{} x {} pods", load.miniclusters, load.pods);
    let trial = Trial::begin(&environment.cluster, client, "scale").await?;
    let mut news = namespace::watch(&trial, &[ApiResource::erase::<Job>(&())]).await?;
    let mut operator = program.start(environment)?;
    operator.rest().await?;
    let (memory_before, worked_before) = (operator.memory()?, operator.processor_time()?);
    let cluster = environment.cluster.own().context("there is no audit log")?;
    let mut audit = Audit::from_now_on(&cluster.audit_log())?;
    progress::log(&format!("{what}: creating them"));
    let mut jobs = Jobs::none_yet(load);
    tokio::try_join!(
        create(&trial, load.objects()),
        observe(&mut news, &trial, environment, &mut operator, &mut jobs),
    )?;
    operator.rest().await?;
    let answered = audit.operator()?;
    let requests = count(&answered);
    progress::log(&format!("{what}: {}; requests: {requests:?}", jobs.describe()));
    let worked = operator.processor_time()?.saturating_sub(worked_before);
    let writes = answered.iter().filter(|it| it.is_write()).count();
    let each = |count: usize| -> Result<f64> {
        Ok(f64::from(u32::try_from(count)?) / f64::from(load.miniclusters))
    };
    Ok(Row {
        load,
        jobs_seconds: last(&jobs.there).as_secs_f64(),
        complete_seconds: last(&jobs.complete).as_secs_f64(),
        processor_milliseconds_each: worked.as_secs_f64() * 1000.0 / f64::from(load.miniclusters),
        requests_each: each(answered.len())?,
        writes_each: each(writes)?,
        requests,
        memory_before_mib: memory_before,
        memory_after_mib: operator.memory()?,
    })
}

/// How many requests of each kind there are.
pub(super) fn count(requests: &[Request]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for request in requests {
        *counts.entry(request.kind()).or_default() += 1;
    }
    counts
}

/// When each Job was there, and when it was complete, since the first MiniCluster was created.
struct Jobs {
    load: Load,
    begun: Instant,
    there: HashMap<String, Duration>,
    complete: HashMap<String, Duration>,
}

fn last(reached: &HashMap<String, Duration>) -> Duration {
    reached.values().max().copied().unwrap_or_default()
}

impl Jobs {
    fn none_yet(load: Load) -> Self {
        Self { load, begun: Instant::now(), there: HashMap::new(), complete: HashMap::new() }
    }

    fn note(&mut self, job: &Observed) {
        let (name, at) = (job.object.name_any(), self.begun.elapsed());
        if job.has_condition("Complete") {
            self.complete.entry(name.clone()).or_insert(at);
        }
        self.there.entry(name).or_insert(at);
    }

    fn all_complete(&self) -> bool {
        u32::try_from(self.complete.len()).is_ok_and(|it| it >= self.load.miniclusters)
    }

    fn describe(&self) -> String {
        let reached = |what: &str, reached: &HashMap<String, Duration>| {
            format!("{} {what} after {:.1} s", reached.len(), last(reached).as_secs_f64())
        };
        [reached("Jobs", &self.there), reached("complete", &self.complete)].join(", ")
    }
}

pub(super) async fn create(trial: &Trial, objects: Vec<DynamicObject>) -> Result<()> {
    stream::iter(&objects)
        .map(|object| namespace::create(trial, object))
        .buffer_unordered(AT_ONCE)
        .try_for_each(async |_| Ok(()))
        .await
}

/// Records the Jobs until all are complete. Lets the lead of a large MiniCluster end once all pods are ready, as a quorum
/// would.
async fn observe(
    news: &mut Observations,
    trial: &Trial,
    environment: &Environment,
    operator: &mut Operator,
    jobs: &mut Jobs,
) -> Result<()> {
    let mut held = jobs.load.waits_for_all();
    while !jobs.all_complete() {
        operator.check()?;
        ensure!(jobs.begun.elapsed() < DEADLINE, "it does not end: {}", jobs.describe());
        let Ok(next) = tokio::time::timeout(PAUSE, news.next()).await else { continue };
        let job = next.context("the watch has ended")??;
        jobs.note(&job);
        if held && job.object.data["status"]["ready"].as_u64() >= Some(jobs.load.pods.into()) {
            held = false;
            let (name, namespace) = (job.object.name_any(), trial.namespace());
            let lead = format!("{JOB_NAME}={name},{COMPLETION_INDEX}=0");
            let no_hold = format!("{HOLD}-");
            let words =
                ["annotate", "pods", "--selector", &lead, &no_hold, "--namespace", namespace];
            environment.kubectl(&words)?;
        }
    }
    Ok(())
}
