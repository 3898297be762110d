//! One run of a contender: applied, watched to its end, removed.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use futures::{StreamExt as _, stream::BoxStream};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        batch::v1::Job,
        core::v1::{ConfigMap, Namespace, Pod, Service, ServiceAccount},
    },
    jiff::Timestamp,
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
    core::{DynamicObject, GroupVersionKind, TypeMeta},
    discovery::ApiResource,
    runtime::{wait::await_condition, watcher},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{collections::BTreeMap, fmt::Debug};

use super::{
    contender::{Contender, Start},
    objects::Wanted,
    processor,
    recording::{Milestone, Object, Recording, Seen},
    runtime::{self, Runtime},
};
use crate::{environment::Environment, trial::Trial};

/// A run that takes longer does not end.
const DEADLINE: Duration = Duration::from_mins(5);
/// The ConfigMap that each namespace has.
const ROOT_CERTIFICATE: &str = "kube-root-ca.crt";
/// How long to wait between two looks at what is being removed.
const INTERVAL: Duration = Duration::from_millis(100);

/// A run and what was measured of it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Run {
    /// Who ran.
    pub(super) contender: Contender,
    /// On how many pods.
    pub(super) size: u32,
    /// From 0.
    pub(super) round: usize,
    /// The first one, or one of a name that was used before.
    pub(super) start: Start,
    #[serde(flatten)]
    pub(super) measured: Measured,
}

/// What is measured of a run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Measured {
    /// Seconds from the first object's creation.
    pub(super) milestones: BTreeMap<Milestone, f64>,
    /// What the whole machine has worked until the last of them.
    pub(super) processor_seconds: f64,
}

/// Where contenders run.
#[derive(Debug)]
pub(super) struct Place {
    /// The cluster.
    pub(super) environment: Environment,
    /// What its containerd tells.
    pub(super) runtime: Runtime,
}

impl Place {
    /// A namespace with what each pod needs: without, the first ones would not be made at once.
    pub(super) async fn namespace(client: &kube::Client) -> Result<Trial> {
        let trial = Trial::begin(client, "bench", &[]).await?;
        let ready = async {
            let account = |it: Option<&ServiceAccount>| it.is_some();
            await_condition(trial.api(), "default", account).await?;
            let root = |it: Option<&ConfigMap>| it.is_some();
            await_condition(trial.api(), ROOT_CERTIFICATE, root).await
        };
        let ready = tokio::time::timeout(DEADLINE, ready).await;
        ready.context("waiting for what each namespace has")??;
        Ok(trial)
    }

    /// Runs it once and removes it.
    pub(super) async fn run(&self, trial: &Trial, wanted: Wanted<'_>) -> Result<Measured> {
        let mut news = watch_all(trial, wanted.contender);
        let watching = if wanted.contender.is_ours() { 3 } else { 2 };
        for _ in 0..watching {
            match news.next().await.context("nothing is watched")?? {
                News::Watching => {}
                News::Seen(_) => bail!("the namespace is not empty"),
            }
        }
        let mut recording = Recording { begun: Timestamp::now(), ..Recording::default() };
        let recorded = async {
            let following = follow(&mut news, &mut recording, wanted.contender.is_ours());
            tokio::time::timeout(DEADLINE, following).await.context("it does not end")?
        };
        let before = processor::time()?;
        let (made, ()) = tokio::try_join!(create_all(trial, wanted), recorded)?;
        let worked = processor::time()?.saturating_sub(before);
        recording.tasks = self.runtime.events();
        let lead = recording.lead().and_then(|lead| lead.metadata.uid.clone());
        let lead = lead.context("there was no lead")?;
        recording.containers = runtime::containers(&self.environment, &lead)?;
        remove(trial, &made).await?;
        let milestones = recording.milestones();
        if !milestones.contains_key(&Milestone::PodEnded) {
            bail!("containerd has not told when the lead ended");
        }
        Ok(Measured { milestones, processor_seconds: worked.as_secs_f64() })
    }
}

/// Deletes the namespace and waits until it is gone.
pub(super) async fn clean(trial: Trial) -> Result<()> {
    let (client, name) = (trial.client().clone(), trial.namespace().to_owned());
    trial.clean().await?;
    let gone = |it: Option<&Namespace>| it.is_none();
    let gone = await_condition(Api::all(client), &name, gone);
    tokio::time::timeout(DEADLINE, gone).await.context("the namespace stays")??;
    Ok(())
}

/// What a watch brings.
enum News {
    /// It has begun.
    Watching,
    /// An object, new or changed.
    Seen(Box<Seen>),
}

type Stream = BoxStream<'static, Result<News>>;

fn watch_all(trial: &Trial, contender: Contender) -> Stream {
    let pods = watch::<Pod>(trial, |it| Object::Pod(Box::new(it)));
    let jobs = watch::<Job>(trial, |it| Object::Job(Box::new(it)));
    let mut all = vec![pods, jobs];
    if contender.is_ours() {
        all.push(watch(trial, |it| Object::MiniCluster(Box::new(it))));
    }
    futures::stream::select_all(all).boxed()
}

fn watch<K>(trial: &Trial, object: fn(K) -> Object) -> Stream
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let seen =
        move |it| Some(Ok(News::Seen(Box::new(Seen { at: Timestamp::now(), object: object(it) }))));
    let events = watcher(trial.api::<K>(), watcher::Config::default());
    let news = events.filter_map(move |event| {
        std::future::ready(match event {
            Ok(watcher::Event::Apply(it) | watcher::Event::InitApply(it)) => seen(it),
            Ok(watcher::Event::InitDone) => Some(Ok(News::Watching)),
            Ok(watcher::Event::Init | watcher::Event::Delete(_)) => None,
            Err(error) => Some(Err(anyhow!(error).context("watching a run"))),
        })
    });
    news.boxed()
}

/// Records what comes until the run has ended.
async fn follow(news: &mut Stream, recording: &mut Recording, has_minicluster: bool) -> Result<()> {
    loop {
        if let News::Seen(seen) = news.next().await.context("nothing is watched")?? {
            recording.seen.push(*seen);
        }
        if let Some(end) = recording.end(has_minicluster) {
            return end.map_err(|error| anyhow!(error));
        }
    }
}

async fn create_all(trial: &Trial, wanted: Wanted<'_>) -> Result<Vec<DynamicObject>> {
    let mut made = Vec::new();
    let mut address = String::new();
    if let Some(service) = wanted.lead_service() {
        let service = create(trial, service).await?;
        let given = service.data.pointer("/spec/clusterIP").and_then(Value::as_str);
        given.context("the Service has no address")?.clone_into(&mut address);
        made.push(service);
    }
    for object in wanted.objects(&address) {
        made.push(create(trial, object).await?);
    }
    Ok(made)
}

async fn create(trial: &Trial, object: Value) -> Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object).context("reading an object")?;
    let made = api(trial, &object)?.create(&PostParams::default(), &object).await;
    made.with_context(|| format!("creating {}", object.name_any()))
}

fn api(trial: &Trial, object: &DynamicObject) -> Result<Api<DynamicObject>> {
    let types: &TypeMeta = object.types.as_ref().context("an object has no kind")?;
    let kind = GroupVersionKind::try_from(types).context("reading an object's kind")?;
    let resource = ApiResource::from_gvk(&kind);
    Ok(Api::namespaced_with(trial.client().clone(), trial.namespace(), &resource))
}

/// Deletes what was made and waits until nothing of it is left. Not in the foreground: the Go operator makes
/// again what goes before its MiniCluster has gone.
async fn remove(trial: &Trial, made: &[DynamicObject]) -> Result<()> {
    for object in made {
        let (api, name) = (api(trial, object)?, object.name_any());
        let deleted = api.delete(&name, &DeleteParams::background()).await;
        deleted.with_context(|| format!("deleting {name}"))?;
    }
    let gone = async {
        for object in made {
            let (api, name) = (api(trial, object)?, object.name_any());
            let gone = |it: Option<&DynamicObject>| it.is_none();
            await_condition(api, &name, gone).await?;
        }
        while !(is_empty::<Pod>(trial).await?
            && is_empty::<Job>(trial).await?
            && is_empty::<Service>(trial).await?
            && is_empty::<ConfigMap>(trial).await?)
        {
            tokio::time::sleep(INTERVAL).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(DEADLINE, gone).await.context("what was made stays")?
}

async fn is_empty<K>(trial: &Trial) -> Result<bool>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let listed = trial.api::<K>().list(&ListParams::default()).await;
    let left = listed.context("looking at what is left")?.items;
    // Each namespace has a ConfigMap of its own.
    Ok(left.iter().all(|object| object.name_any() == ROOT_CERTIFICATE))
}
