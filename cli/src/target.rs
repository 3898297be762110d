//! A MiniCluster that is named, and its pods.

use crate::completion::names;
use crate::connection::Connection;
use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use flux_contract::Layout;
use flux_contract::labels::{COMPLETION_INDEX, JOB_NAME};
use flux_operator::crd::MiniCluster;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use kube::ResourceExt as _;
use kube::api::ListParams;
use std::collections::BTreeMap;

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
