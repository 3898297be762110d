//! The MiniCluster that a command line names, and its pods.

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

/// The name of a MiniCluster on the command line.
#[derive(Debug, Clone, Args)]
pub(crate) struct NameArgument {
    /// Name of the MiniCluster
    #[arg(add = ArgValueCompleter::new(names))]
    pub name: String,
}

impl NameArgument {
    pub(crate) fn target(&self, connection: Connection) -> MiniClusterRef {
        MiniClusterRef::new(connection, &self.name)
    }
}

/// A reference to a MiniCluster in a namespace of a cluster; it need not exist.
#[derive(Clone)]
pub(crate) struct MiniClusterRef {
    pub connection: Connection,
    pub name: String,
}

impl MiniClusterRef {
    /// `name` may be written as kubectl prints names: `minicluster/hello`.
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
                "there is no MiniCluster {name} in the namespace {}: `kubectl flux list -A` lists all MiniClusters",
                connection.namespace
            )
        })
    }

    /// The newest pod of each rank, by rank.
    pub(crate) async fn pods(&self) -> Result<BTreeMap<u32, Pod>> {
        let pods = self.pod_list().await?.into_iter();
        Ok(pods.filter_map(|pod| Some((rank(&pod)?, pod))).collect())
    }

    /// All pods of the Job, the newest last: a rank may have several, of which all but the last have failed.
    pub(crate) async fn pod_list(&self) -> Result<Vec<Pod>> {
        let parameters = ListParams::default().labels(&self.selector());
        let list = self.connection.api::<Pod>().list(&parameters).await;
        let mut pods = list.with_context(|| format!("list the pods of {}", self.name))?.items;
        pods.sort_by_key(|pod| pod.creation_timestamp().map(|at| at.0));
        Ok(pods)
    }

    /// The MiniCluster after each change, `None` after its deletion.
    pub(crate) fn changes(
        &self,
    ) -> impl Stream<Item = watcher::Result<Option<MiniCluster>>> + use<> {
        let fields = format!("metadata.name={}", self.name);
        let events = watcher(self.connection.api(), watch_config().fields(&fields));
        let events = events.default_backoff();
        // `watcher::watch_object` does the same, but takes no configuration.
        events
            .scan(false, |is_listed, event| {
                let change = match event {
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
                ready(Some(change))
            })
            .filter_map(ready)
    }

    /// Waits until `find` returns a value for the MiniCluster, or for `None` if there is none.
    pub(crate) async fn until<T>(
        &self,
        mut find: impl FnMut(Option<MiniCluster>) -> Result<Option<T>>,
    ) -> Result<T> {
        let mut changes = pin!(self.changes());
        while let Some(change) = changes.next().await {
            let Some(cluster) = checked(change)? else { continue };
            if let Some(found) = find(cluster)? {
                return Ok(found);
            }
        }
        bail!("the watch of {} has ended", self.name)
    }

    /// The label selector of the Job's pods.
    fn selector(&self) -> String {
        format!("{JOB_NAME}={}", self.name)
    }

    /// The pods of `rank` or of all ranks, each after each change.
    pub(crate) fn pod_changes(
        &self,
        rank: Option<u32>,
    ) -> impl Stream<Item = watcher::Result<Pod>> + use<> {
        let index = rank.map(|rank| format!(",{COMPLETION_INDEX}={rank}")).unwrap_or_default();
        let selector = format!("{}{index}", self.selector());
        let events = watcher(self.connection.api(), watch_config().labels(&selector));
        events.default_backoff().applied_objects()
    }

    /// The pod of this rank; fails unless its runner runs.
    pub(crate) async fn running_pod(&self, rank: u32) -> Result<Pod> {
        let mut pods = self.pods().await?;
        let Some(pod) = pods.remove(&rank) else { return Err(self.no_pod(rank, &pods).await?) };
        match runner_state(&pod, &self.name) {
            Some(ContainerState { running: Some(_), .. }) => Ok(pod),
            Some(ContainerState { terminated: Some(_), .. }) => bail!(
                "rank {rank} of {} has ended: `kubectl flux logs {}` prints its output",
                self.name,
                self.name
            ),
            _ => bail!(
                "rank {rank} of {} is not running yet: `kubectl flux explain {}` shows why",
                self.name,
                self.name
            ),
        }
    }

    /// Why there is no pod of this rank.
    async fn no_pod(&self, rank: u32, others: &BTreeMap<u32, Pod>) -> Result<anyhow::Error> {
        let cluster = self.get().await?;
        let name = &self.name;
        if others.is_empty() {
            let state = cluster.state().map(|state| state.to_string());
            let state = state.unwrap_or_else(|| "not reconciled yet".to_owned());
            return Ok(anyhow!(
                "{name} has no pods: it is {state}; see `kubectl flux explain {name}`"
            ));
        }
        let ranks: Vec<String> = others.keys().map(ToString::to_string).collect();
        Ok(anyhow!("{name} has no pod of rank {rank}; there are {}", ranks.join(", ")))
    }
}

/// Returns the error of a watch that cannot begin. The watcher itself retries after later errors: then this is `None`.
pub(crate) fn checked<T>(event: watcher::Result<T>) -> Result<Option<T>> {
    match event {
        Ok(event) => Ok(Some(event)),
        Err(watcher::Error::InitialListFailed(error)) => Err(error).context("watch the run"),
        Err(_) => Ok(None),
    }
}

/// The path of the agent in the pods of `cluster`.
pub(crate) fn agent(cluster: &MiniCluster) -> String {
    layout(cluster).agent().display().to_string()
}

/// The path of `flux` in the pods of `cluster`. It runs as the broker's user.
pub(crate) fn client(cluster: &MiniCluster) -> String {
    layout(cluster).client().display().to_string()
}

fn layout(cluster: &MiniCluster) -> Layout {
    Layout::new(&cluster.spec.flux.container.mount_path)
}

/// The rank of a pod, which is its index in the Job.
pub(crate) fn rank(pod: &Pod) -> Option<u32> {
    pod.labels().get(COMPLETION_INDEX)?.parse().ok()
}

/// The status of a container of the pod. The runner, which runs Flux, has the name of its MiniCluster.
pub(crate) fn runner<'pod>(pod: &'pod Pod, name: &str) -> Option<&'pod ContainerStatus> {
    let status = pod.status.as_ref()?;
    let lists = [
        &status.container_statuses,
        &status.init_container_statuses,
        &status.ephemeral_container_statuses,
    ];
    lists.into_iter().flatten().flatten().find(|status| status.name == name)
}

pub(crate) fn runner_state<'pod>(pod: &'pod Pod, name: &str) -> Option<&'pod ContainerState> {
    runner(pod, name)?.state.as_ref()
}
