//! A MiniCluster that is named, and its pods.

use crate::completion::names;
use crate::connection::{Connection, watch_config};
use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use flux_api::crd::MiniCluster;
use flux_contract::Layout;
use flux_contract::labels::{COMPLETION_INDEX, JOB_NAME};
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use kube::ResourceExt as _;
use kube::api::ListParams;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use std::collections::BTreeMap;
use std::future::ready;
use std::pin::pin;

/// The MiniCluster that is meant.
#[derive(Debug, Clone, Args)]
pub(crate) struct NameArgument {
    /// Name of the MiniCluster
    #[arg(add = ArgValueCompleter::new(names))]
    pub name: String,
}

/// A MiniCluster of a cluster.
#[derive(Clone)]
pub(crate) struct Target {
    pub connection: Connection,
    pub name: String,
}

impl Target {
    /// `minicluster/hello` is what kubectl would call `hello`.
    pub(crate) fn new(connection: Connection, name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or(name).to_owned();
        Self { connection, name }
    }

    pub(crate) async fn get(&self) -> Result<MiniCluster> {
        let Self { connection, name } = self;
        let found = connection.api::<MiniCluster>().get_opt(name).await;
        let found = found.with_context(|| format!("read the MiniCluster {name}"))?;
        found.ok_or_else(|| {
            anyhow!(
                "there is no MiniCluster {name} in the namespace {}: `kubectl flux list -A` shows all",
                connection.namespace
            )
        })
    }

    /// The newest pod of each rank that has one, by rank.
    pub(crate) async fn pods(&self) -> Result<BTreeMap<u32, Pod>> {
        let parameters = ListParams::default().labels(&self.selector());
        let list = self.connection.api::<Pod>().list(&parameters).await;
        let pods = list.with_context(|| format!("list the pods of {}", self.name))?.items;
        Ok(by_rank(pods))
    }

    /// The MiniCluster whenever it changes, and nothing when there is none.
    pub(crate) fn changes(
        &self,
    ) -> impl Stream<Item = watcher::Result<Option<MiniCluster>>> + use<> {
        let fields = format!("metadata.name={}", self.name);
        let events = watcher(self.connection.api(), watch_config().fields(&fields));
        let events = events.default_backoff();
        // As `watcher::watch_object`, which takes no configuration.
        events
            .scan(false, |is_listed, event| {
                let seen = match event {
                    Ok(Event::Init) => {
                        *is_listed = false;
                        None
                    }
                    Ok(Event::InitApply(found)) => {
                        *is_listed = true;
                        Some(Ok(Some(found)))
                    }
                    Ok(Event::Apply(found)) => Some(Ok(Some(found))),
                    Ok(Event::InitDone) => (!*is_listed).then_some(Ok(None)),
                    Ok(Event::Delete(_)) => Some(Ok(None)),
                    Err(error) => Some(Err(error)),
                };
                ready(Some(seen))
            })
            .filter_map(ready)
    }

    /// Waits until `found` has something of the MiniCluster, which is none when there is none.
    pub(crate) async fn until<T>(
        &self,
        mut found: impl FnMut(Option<MiniCluster>) -> Result<Option<T>>,
    ) -> Result<T> {
        let mut all = pin!(self.changes());
        while let Some(seen) = all.next().await {
            let Some(seen) = checked(seen)? else { continue };
            if let Some(found) = found(seen)? {
                return Ok(found);
            }
        }
        bail!("the watch of {} has ended", self.name)
    }

    /// Selects all pods of the Job.
    pub(crate) fn selector(&self) -> String {
        format!("{JOB_NAME}={}", self.name)
    }

    /// The running pod of this rank.
    pub(crate) async fn running_pod(&self, rank: u32) -> Result<Pod> {
        let mut pods = self.pods().await?;
        let Some(pod) = pods.remove(&rank) else { return Err(self.absent(rank, &pods).await?) };
        match runner_state(&pod, &self.name) {
            Some(ContainerState { running: Some(_), .. }) => Ok(pod),
            Some(ContainerState { terminated: Some(_), .. }) => bail!(
                "rank {rank} of {} has ended: `kubectl flux logs {}` has its output",
                self.name,
                self.name
            ),
            _ => bail!(
                "rank {rank} of {} does not run yet: `kubectl flux explain {}` says what it waits for",
                self.name,
                self.name
            ),
        }
    }

    async fn absent(&self, rank: u32, others: &BTreeMap<u32, Pod>) -> Result<anyhow::Error> {
        let cluster = self.get().await?;
        let name = &self.name;
        if others.is_empty() {
            let state = cluster.status.and_then(|status| status.state);
            let state = state
                .map_or_else(|| "is not reconciled yet".to_owned(), |state| format!("is {state}"));
            return Ok(anyhow!(
                "{name} has no pods, it {state}: `kubectl flux explain {name}` says why"
            ));
        }
        let ranks: Vec<String> = others.keys().map(ToString::to_string).collect();
        Ok(anyhow!("{name} has no pod of rank {rank}; there are {}", ranks.join(", ")))
    }
}

/// A watch that cannot begin fails; what happens to it later is tried again.
pub(crate) fn checked<T>(seen: watcher::Result<T>) -> Result<Option<T>> {
    match seen {
        Ok(seen) => Ok(Some(seen)),
        Err(watcher::Error::InitialListFailed(error)) => Err(error).context("watch the run"),
        Err(_) => Ok(None),
    }
}

/// The agent in the pods of `cluster`.
pub(crate) fn agent(cluster: &MiniCluster) -> String {
    layout(cluster).agent().display().to_string()
}

/// `flux` in the pods of `cluster`: it becomes the broker's user.
pub(crate) fn client(cluster: &MiniCluster) -> String {
    layout(cluster).client().display().to_string()
}

fn layout(cluster: &MiniCluster) -> Layout {
    Layout::new(&cluster.spec.flux.container.mount_path)
}

/// The rank of a pod: its index in the Job.
pub(crate) fn rank(pod: &Pod) -> Option<u32> {
    pod.labels().get(COMPLETION_INDEX)?.parse().ok()
}

fn by_rank(mut pods: Vec<Pod>) -> BTreeMap<u32, Pod> {
    pods.sort_by_key(|pod| pod.creation_timestamp().map(|at| at.0));
    pods.into_iter().filter_map(|pod| Some((rank(&pod)?, pod))).collect()
}

/// The status of the container that runs Flux, which has the name of its MiniCluster.
pub(crate) fn runner<'pod>(pod: &'pod Pod, name: &str) -> Option<&'pod ContainerStatus> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.iter().find(|status| status.name == name)
}

pub(crate) fn runner_state<'pod>(pod: &'pod Pod, name: &str) -> Option<&'pod ContainerState> {
    runner(pod, name)?.state.as_ref()
}
