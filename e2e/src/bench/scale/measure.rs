//! One measurement: an operator that has nothing to do is given many MiniClusters at once.

mod watch;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use flux_operator::crd::MiniCluster;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    core::DynamicObject,
    discovery::ApiResource,
    runtime::wait::await_condition,
};
use serde::Serialize;
use serde_json::{Value, json};

use self::watch::Seen;
pub(super) use self::watch::Times;
use super::{
    contender::Contender,
    manifest::{HOLD, Load},
    process::Memory,
    requests::{Audit, Requests},
};
use crate::{environment::Environment, progress::Progress};

/// Requests of this program under way at the same time.
const AT_ONCE: usize = 32;
/// A new namespace gets its service account long before.
const ACCOUNT: Duration = Duration::from_mins(2);
/// How long one measurement may take.
const DEADLINE: Duration = Duration::from_mins(40);
/// How often the operator is looked at.
const PAUSE: Duration = Duration::from_secs(1);

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figures {
    /// Seconds until the last MiniCluster was created.
    pub(super) created_seconds: f64,
    #[serde(flatten)]
    pub(super) times: Times,
    /// Of the operator, until it had nothing to do.
    pub(super) processor_seconds: f64,
    /// Before the first MiniCluster was created.
    pub(super) memory_before: Memory,
    /// When the operator had nothing to do any more.
    pub(super) memory_after: Memory,
    /// From the first MiniCluster until the operator had nothing to do.
    pub(super) requests: Requests,
}

/// Gives `load` to a new process of `contender`.
pub(super) async fn measure(
    client: &Client,
    environment: &Environment,
    contender: &Contender,
    load: &Load,
    progress: &Progress,
) -> Result<Figures> {
    let what = format!("{}: {}", contender.name, load.describe());
    let directory = tempfile::tempdir().context("making a directory for the operator")?;
    let log = environment.audit_log().context("there is no audit log")?;
    let audit = Audit { log, user: contender.user() };
    let namespace = load.namespace();
    make_namespace(client, &namespace).await?;
    let mut operator = contender.start(environment, directory.path())?;
    operator.rest().await?;
    let (memory_before, worked_before) = (operator.memory()?, operator.processor_time()?);
    let position = audit.position()?;
    progress.say(&format!("{what}: creating them"));
    let seen = Seen::new(load.miniclusters);
    let work = async {
        let created = create(client, load).await?;
        while !seen.all_done() {
            operator.check()?;
            ensure!(seen.elapsed() < DEADLINE, "{what}: {}", seen.describe());
            tokio::time::sleep(PAUSE).await;
        }
        anyhow::Ok(created)
    };
    let created = tokio::select! {
        created = work => created?,
        failed = seen.watch(client, &namespace) => return Err(failed),
        failed = end_when_all_are_there(client, contender, load, &seen) => return Err(failed),
    };
    operator.rest().await?;
    let figures = Figures {
        created_seconds: created.as_secs_f64(),
        times: seen.times(),
        processor_seconds: operator.processor_time()?.saturating_sub(worked_before).as_secs_f64(),
        memory_before,
        memory_after: operator.memory()?,
        requests: audit.since(position)?,
    };
    progress.say(&format!(
        "{what}: {}; requests: {}",
        seen.describe(),
        figures.requests.describe()
    ));
    operator.stop()?;
    Ok(figures)
}

/// Makes a namespace in which pods can be made.
async fn make_namespace(client: &Client, name: &str) -> Result<()> {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    let made = Api::all(client.clone()).create(&PostParams::default(), &namespace).await;
    made.with_context(|| format!("making the namespace {name}"))?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    let there = |account: Option<&ServiceAccount>| account.is_some();
    let waited = tokio::time::timeout(ACCOUNT, await_condition(accounts, "default", there)).await;
    waited.context("a namespace has no service account")?.context("watching service accounts")?;
    Ok(())
}

/// Creates all MiniClusters of `load`, and says how long that took.
async fn create(client: &Client, load: &Load) -> Result<Duration> {
    let begun = Instant::now();
    let resource = ApiResource::erase::<MiniCluster>(&());
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &load.namespace(), &resource);
    stream::iter(load.objects())
        .map(|object| {
            let api = api.clone();
            async move { api.create(&PostParams::default(), &object).await }
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await
        .context("creating MiniClusters")?;
    Ok(begun.elapsed())
}

/// Lets the pods of a large MiniCluster end once all are ready, as a quorum would. Returns only where that
/// fails.
async fn end_when_all_are_there(
    client: &Client,
    contender: &Contender,
    load: &Load,
    seen: &Seen,
) -> anyhow::Error {
    if load.waits_for_all() {
        let job = seen.ready(load.pods).await;
        if let Err(error) = release(client, load, &contender.ending(&job)).await {
            return error;
        }
    }
    std::future::pending().await
}

/// Takes the annotation away that keeps these pods running.
async fn release(client: &Client, load: &Load, pods: &str) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &load.namespace());
    let list = api.list_metadata(&ListParams::default().labels(pods)).await;
    let list = list.context("listing pods that are to end")?;
    let patch = json!({"metadata": {"annotations": {HOLD: Value::Null}}});
    stream::iter(list.items)
        .map(|pod| {
            let (api, patch) = (api.clone(), Patch::Merge(patch.clone()));
            async move { api.patch(&pod.name_any(), &PatchParams::default(), &patch).await }
        })
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| std::future::ready(Ok(())))
        .await
        .context("letting pods end")
}
