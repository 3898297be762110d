//! One measurement: an operator that has nothing to do is given many MiniClusters at once.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use flux_operator::crd::MiniCluster;
use futures::{Stream, StreamExt as _, TryStreamExt as _, future::Either, stream};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Namespace, Pod, ServiceAccount},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    core::DynamicObject,
    discovery::ApiResource,
    runtime::{WatchStreamExt as _, wait::await_condition, watcher},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    contender::Contender,
    load::{HOLD, Load},
    observed::{Kind, Observed, Times},
};
use crate::{
    audit::{Audit, Request},
    bench::operator::{Memory, Operator},
    environment::Environment,
    progress::Progress,
};

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
    /// How many of each kind from the first MiniCluster until the operator had nothing to do. A watch counts
    /// once it has ended.
    pub(super) requests: BTreeMap<String, u64>,
    /// Those that may change something.
    pub(super) writes: u64,
}

/// Gives `load` to a new process of `contender`.
pub(super) async fn measure(
    client: &Client,
    environment: &Environment,
    contender: &Contender,
    load: Load,
    progress: &Progress,
) -> Result<Figures> {
    let what = format!("{}: {}", contender.name, load.name());
    let directory = tempfile::tempdir().context("making a directory for the operator")?;
    let namespace = format!("scale-{}", load.name());
    make_namespace(client, &namespace).await?;
    let mut operator = contender.start(environment, directory.path())?;
    operator.rest().await?;
    let (memory_before, worked_before) = (operator.memory()?, operator.processor_time()?);
    let log = environment.audit_log().context("there is no audit log")?;
    let mut audit = Audit::from_now_on(&log)?;
    progress.say(&format!("{what}: creating them"));
    let mut observed = Observed::new(load.miniclusters);
    let (created, ()) = tokio::try_join!(
        create(client, &namespace, load),
        observe(client, &namespace, contender, load, &mut operator, &mut observed),
    )?;
    operator.rest().await?;
    let requests = audit.operator()?;
    let figures = Figures {
        created_seconds: created.as_secs_f64(),
        times: observed.times(),
        processor_seconds: operator.processor_time()?.saturating_sub(worked_before).as_secs_f64(),
        memory_before,
        memory_after: operator.memory()?,
        writes: u64::try_from(requests.iter().filter(|it| it.is_write()).count())?,
        requests: by_kind(&requests),
    };
    progress.say(&format!("{what}: {}; requests: {:?}", observed.describe(), figures.requests));
    operator.stop()?;
    Ok(figures)
}

fn by_kind(requests: &[Request]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for request in requests {
        *counts.entry(request.kind()).or_default() += 1;
    }
    counts
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
async fn create(client: &Client, namespace: &str, load: Load) -> Result<Duration> {
    let begun = Instant::now();
    let resource = ApiResource::erase::<MiniCluster>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    stream::iter(load.objects())
        .map(|object| {
            let api = api.clone();
            async move { api.create(&PostParams::default(), &object).await.map(drop) }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await
        .context("creating MiniClusters")?;
    Ok(begun.elapsed())
}

/// Watches until all is done. Lets the pods of a large MiniCluster end once all are ready, as a quorum would.
async fn observe(
    client: &Client,
    namespace: &str,
    contender: &Contender,
    load: Load,
    operator: &mut Operator,
    observed: &mut Observed,
) -> Result<()> {
    let resources = [
        (Kind::Job, ApiResource::erase::<Job>(&())),
        (Kind::MiniCluster, ApiResource::erase::<MiniCluster>(&())),
    ];
    let watches = resources.map(|(kind, resource)| {
        let api = Api::namespaced_with(client.clone(), namespace, &resource);
        watch(api).map_ok(move |object| Either::Left((kind, object))).boxed()
    });
    let ticks = stream::unfold((), async |()| {
        tokio::time::sleep(PAUSE).await;
        Some((Ok(Either::Right(())), ()))
    });
    let mut news = stream::select_all(watches.into_iter().chain([ticks.boxed()]));
    let mut held = load.waits_for_all();
    while !observed.all_done() {
        match news.next().await.context("the watches have ended")?? {
            Either::Left((kind, object)) => {
                observed.note(kind, &object);
                let ready = object.data["status"]["ready"].as_u64();
                if held && kind == Kind::Job && ready >= Some(load.pods.into()) {
                    held = false;
                    release(client, namespace, &contender.ending(&object.name_any())).await?;
                }
            }
            Either::Right(()) => {
                operator.check()?;
                ensure!(observed.elapsed() < DEADLINE, "it does not end: {}", observed.describe());
            }
        }
    }
    Ok(())
}

fn watch(api: Api<DynamicObject>) -> impl Stream<Item = Result<DynamicObject>> {
    let objects = watcher(api, watcher::Config::default()).default_backoff().applied_objects();
    objects.map(|object| object.context("watching what becomes of the MiniClusters"))
}

/// Takes the annotation away that keeps these pods running.
async fn release(client: &Client, namespace: &str, pods: &str) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let list = api.list_metadata(&ListParams::default().labels(pods)).await;
    let list = list.context("listing pods that are to end")?;
    let patch = json!({"metadata": {"annotations": {HOLD: Value::Null}}});
    stream::iter(list.items)
        .map(|pod| {
            let (api, patch) = (api.clone(), Patch::Merge(patch.clone()));
            async move { api.patch(&pod.name_any(), &PatchParams::default(), &patch).await.map(drop) }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await
        .context("letting pods end")
}
