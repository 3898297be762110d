//! One run of a contender: applied, watched to its end, removed with its namespace.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, anyhow, bail};
use flux_operator::crd::MiniCluster;
use futures::{Stream, StreamExt as _, stream::BoxStream};
use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{ConfigMap, Namespace, Pod, ServiceAccount},
    },
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::PostParams,
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
    runtime::{wait::await_condition, watcher},
};
use serde::Serialize;

use super::{
    containerd::{self, Containerd},
    contender::{Contender, Wanted},
    processor,
    recording::{POD_ENDED, Recording, Seen},
};
use crate::{
    environment::Environment,
    trial::{Trial, evidence::keep_evidence},
};

/// A run that takes longer does not end.
const DEADLINE: Duration = Duration::from_mins(5);

/// A run and what was measured of it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Run {
    /// Who ran.
    pub(super) contender: Contender,
    /// On how many pods.
    pub(super) size: u32,
    /// From 0.
    pub(super) round: usize,
    /// Seconds from the first object's creation.
    pub(super) milestones: BTreeMap<&'static str, f64>,
    /// What the whole machine has worked until the last of them.
    pub(super) processor_seconds: f64,
}

/// Where contenders run.
#[derive(Debug)]
pub(super) struct Place {
    /// The cluster.
    pub(super) environment: Environment,
    /// Its containerd.
    pub(super) containerd: Containerd,
}

impl Place {
    /// Runs what is wanted once, in a namespace of its own.
    pub(super) fn run(&self, wanted: Wanted<'_>, round: usize) -> Result<Run> {
        let Wanted { contender, size, .. } = wanted;
        self.environment.run(async |client| {
            let trial = namespace(&self.environment, &client).await?;
            match self.measure(&trial, wanted).await {
                Ok((milestones, processor_seconds)) => {
                    clean(trial).await?;
                    Ok(Run { contender, size, round, milestones, processor_seconds })
                }
                Err(error) => {
                    let what = format!("{}, {size} pods", contender.name());
                    bail!("{what}: {error:#}\n{}", keep_evidence(&trial).await)
                }
            }
        })
    }

    async fn measure(
        &self,
        trial: &Trial,
        wanted: Wanted<'_>,
    ) -> Result<(BTreeMap<&'static str, f64>, f64)> {
        let has_minicluster = wanted.contender.is_ours();
        let mut news = watch_all(trial, has_minicluster).await?;
        let mut recording = Recording { begun: Timestamp::now(), ..Recording::default() };
        let before = processor::time()?;
        let follow = async {
            let following = follow(&mut news, &mut recording, has_minicluster);
            tokio::time::timeout(DEADLINE, following).await.context("it does not end")?
        };
        tokio::try_join!(create_all(trial, wanted), follow)?;
        let worked = processor::time()?.saturating_sub(before);
        recording.tasks = self.containerd.events();
        let lead = recording.lead().and_then(|lead| lead.metadata.uid);
        let lead = lead.context("there was no lead")?;
        recording.containers = containerd::containers(&self.environment, &lead)?;
        let milestones = recording.milestones();
        if !milestones.contains_key(POD_ENDED) {
            bail!("containerd has not reported when the lead ended");
        }
        Ok((milestones, worked.as_secs_f64()))
    }
}

/// A namespace with what each pod needs: without, the first ones would not be made at once.
async fn namespace(environment: &Environment, client: &Client) -> Result<Trial> {
    let trial = Trial::begin(&environment.cluster, client, "bench", &[]).await?;
    let ready = async {
        let account = |it: Option<&ServiceAccount>| it.is_some();
        await_condition(trial.api(), "default", account).await?;
        let root = |it: Option<&ConfigMap>| it.is_some();
        await_condition(trial.api(), "kube-root-ca.crt", root).await
    };
    let ready = tokio::time::timeout(DEADLINE, ready).await;
    ready.context("waiting for what each namespace has")??;
    Ok(trial)
}

/// Deletes the namespace and waits until it is gone.
async fn clean(trial: Trial) -> Result<()> {
    let (client, name) = (trial.client().clone(), trial.namespace().to_owned());
    trial.clean().await?;
    let gone = |it: Option<&Namespace>| it.is_none();
    let gone = await_condition(Api::all(client), &name, gone);
    tokio::time::timeout(DEADLINE, gone).await.context("the namespace stays")??;
    Ok(())
}

/// What a watch brings; nothing where it begins.
type News = Result<Option<Seen>>;

/// Watches everything, and returns once every watch has begun.
async fn watch_all(trial: &Trial, has_minicluster: bool) -> Result<BoxStream<'static, News>> {
    let mut all = vec![
        watch(trial, "Pod", &ApiResource::erase::<Pod>(&())).boxed(),
        watch(trial, "Job", &ApiResource::erase::<Job>(&())).boxed(),
    ];
    if has_minicluster {
        all.push(watch(trial, "MiniCluster", &ApiResource::erase::<MiniCluster>(&())).boxed());
    }
    let watches = all.len();
    let mut news = futures::stream::select_all(all).boxed();
    for _ in 0..watches {
        if news.next().await.context("nothing is watched")??.is_some() {
            bail!("the namespace is not empty");
        }
    }
    Ok(news)
}

fn watch(
    trial: &Trial,
    kind: &'static str,
    resource: &ApiResource,
) -> impl Stream<Item = News> + use<> {
    let api = Api::namespaced_with(trial.client().clone(), trial.namespace(), resource);
    watcher(api, watcher::Config::default()).filter_map(move |event| {
        std::future::ready(match event {
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                Some(Ok(Some(Seen { at: Timestamp::now(), kind, object })))
            }
            Ok(watcher::Event::InitDone) => Some(Ok(None)),
            Ok(watcher::Event::Init | watcher::Event::Delete(_)) => None,
            Err(error) => Some(Err(anyhow!(error).context("watching a run"))),
        })
    })
}

/// Records what comes until the run has ended.
async fn follow(
    news: &mut BoxStream<'static, News>,
    recording: &mut Recording,
    has_minicluster: bool,
) -> Result<()> {
    loop {
        recording.seen.extend(news.next().await.context("nothing is watched")??);
        if let Some(end) = recording.end(has_minicluster) {
            return end.map_err(|error| anyhow!(error));
        }
    }
}

async fn create_all(trial: &Trial, wanted: Wanted<'_>) -> Result<()> {
    let mut address = String::new();
    for service in wanted.service()? {
        let service = create(trial, service).await?;
        let given = service.data["spec"]["clusterIP"].as_str();
        given.context("the Service has no address")?.clone_into(&mut address);
    }
    for object in wanted.objects(&address)? {
        create(trial, object).await?;
    }
    Ok(())
}

async fn create(trial: &Trial, object: DynamicObject) -> Result<DynamicObject> {
    let types = object.types.as_ref().context("an object has no kind")?;
    let kind = GroupVersionKind::try_from(types).context("reading an object's kind")?;
    let resource = ApiResource::from_gvk(&kind);
    let api = Api::namespaced_with(trial.client().clone(), trial.namespace(), &resource);
    let made = api.create(&PostParams::default(), &object).await;
    made.with_context(|| format!("creating {}", object.name_any()))
}
