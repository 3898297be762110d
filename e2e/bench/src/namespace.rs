//! The namespace of a measurement, its objects and their watches.

use crate::operator::Operator;
use e2e::prelude::*;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::core::GroupVersionKind;
use kube::runtime::wait::await_condition;
use kube::runtime::watcher;
use std::collections::BTreeSet;

/// A new namespace is complete long before this deadline.
const DEADLINE: Duration = Duration::from_mins(5);
/// How often an operator is checked while nothing happens.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Waits until the namespace has what each pod needs. Otherwise Kubernetes would delay the first pods.
async fn ready(trial: &Trial) -> Result<()> {
    let account = |it: Option<&ServiceAccount>| it.is_some();
    let root = |it: Option<&ConfigMap>| it.is_some();
    let ready = async {
        await_condition(trial.api(), "default", account).await?;
        await_condition(trial.api(), "kube-root-ca.crt", root).await
    };
    let ready = tokio::time::timeout(DEADLINE, ready).await;
    ready.context("waiting for what each namespace has")??;
    Ok(())
}

/// An object as the API server sent it.
#[derive(Debug, Clone)]
pub(super) struct Observed {
    /// When it came, by this machine's clock.
    pub(super) at: Timestamp,
    pub(super) kind: String,
    pub(super) object: DynamicObject,
}

impl Observed {
    pub(super) fn is(&self, kind: &str) -> bool {
        self.kind == kind
    }

    /// Whether it has this condition, and that is true.
    pub(super) fn has_condition(&self, kind: &str) -> bool {
        let conditions = self.object.data["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|it| it["type"] == kind && it["status"] == "True")
    }
}

/// Every object that is made or changed.
pub(super) type Observations = BoxStream<'static, Result<Observed>>;

/// Watches these kinds in the namespace, which must have no object of them, and returns once every watch has begun.
pub(super) async fn watch(trial: &Trial, resources: &[ApiResource]) -> Result<Observations> {
    ready(trial).await?;
    let watches = resources.iter().map(|resource| watch_one(trial, resource.clone()));
    let mut news = futures::stream::select_all(watches).boxed();
    for _ in resources {
        if news.next().await.context("nothing is watched")??.is_some() {
            bail!("the namespace is not empty");
        }
    }
    Ok(news.filter_map(async |seen| seen.transpose()).boxed())
}

/// Every object, and `None` when the watch has begun.
fn watch_one(trial: &Trial, resource: ApiResource) -> BoxStream<'static, Result<Option<Observed>>> {
    let api = Api::namespaced_with(trial.client().clone(), trial.namespace(), &resource);
    let events = watcher(api, watcher::Config::default());
    let seen = move |event: Result<_, watcher::Error>| match event {
        Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
            Some(Ok(Some(Observed { at: Timestamp::now(), kind: resource.kind.clone(), object })))
        }
        Ok(watcher::Event::InitDone) => Some(Ok(None)),
        Ok(watcher::Event::Init | watcher::Event::Delete(_)) => None,
        Err(error) => Some(Err(anyhow!(error).context("watching what becomes of a run"))),
    };
    events.filter_map(move |event| std::future::ready(seen(event))).boxed()
}

/// Creates an object, which names its kind, and returns it as the API server has it.
pub(super) async fn create(trial: &Trial, object: &DynamicObject) -> Result<DynamicObject> {
    let types = object.types.as_ref().context("an object has no kind")?;
    let kind = GroupVersionKind::try_from(types).context("reading an object's kind")?;
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> =
        Api::namespaced_with(trial.client().clone(), trial.namespace(), &resource);
    let made = api.create(&PostParams::default(), object).await;
    made.with_context(|| format!("creating {}", object.name_any()))
}

/// Watches until `wanted` holds for `count` objects. Fails when `operator` ends, and after half an hour.
pub(super) async fn await_each(
    news: &mut Observations,
    operator: &mut Operator,
    count: u32,
    wanted: impl Fn(&DynamicObject) -> bool,
) -> Result<()> {
    const DEADLINE: Duration = Duration::from_mins(30);
    let (begun, mut there) = (Instant::now(), BTreeSet::new());
    while u32::try_from(there.len())? < count {
        ensure!(begun.elapsed() < DEADLINE, "waiting for {count} objects: {} are so", there.len());
        operator.check()?;
        // Without news for a while the loop only checks the operator again.
        let Ok(next) = tokio::time::timeout(PAUSE, news.next()).await else { continue };
        let seen = next.context("the watch has ended")??.object;
        if wanted(&seen) {
            there.insert(seen.name_any());
        }
    }
    Ok(())
}
