//! Which cluster and namespace are meant, as kubectl finds them.

use anyhow::{Context as _, Result};
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher;
use kube::{Api, Client, Config};
use std::path::PathBuf;
use std::time::Duration;

/// Longest silence of the API server on a connection in use: load balancers forget one that is silent for a minute or
/// two, some without a word to either side.
const SILENCE: Duration = Duration::from_secs(30);
/// After so many seconds the API server ends a watch, and the next begins: below the shortest of these times.
const WATCH: u32 = 15;

/// Which cluster and namespace are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ConnectionArguments {
    /// The kubeconfig; unless given, those in $KUBECONFIG, or ~/.kube/config
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// Namespace; unless given, that of the context
    #[arg(long, short, global = true, value_name = "NAME")]
    pub namespace: Option<String>,
}

impl ConnectionArguments {
    /// The namespace, without a look at a cluster or a kubeconfig: `default` unless given.
    pub(crate) fn offline_namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }
}

/// A cluster, and the namespace in it that is meant.
#[derive(Clone)]
pub(crate) struct Connection {
    pub client: Client,
    /// For programs and ports of pods, which may be silent for as long as they like.
    pub sessions: Client,
    pub namespace: String,
}

impl Connection {
    pub(crate) async fn new(arguments: &ConnectionArguments) -> Result<Self> {
        let mut config = config(arguments).await.context("find a cluster")?;
        let mut sessions = config.clone();
        sessions.read_timeout = None;
        config.read_timeout = Some(SILENCE);
        // From the request on, not from the answer before it.
        config.reset_reader_on_write = true;
        let namespace =
            arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let [client, sessions] = [config, sessions].map(Client::try_from);
        let making = "make a client of the kubeconfig";
        Ok(Self { client: client.context(making)?, sessions: sessions.context(making)?, namespace })
    }

    /// An API for objects of the namespace.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// An API for programs and ports of the namespace's pods.
    pub(crate) fn sessions(&self) -> Api<Pod> {
        Api::namespaced(self.sessions.clone(), &self.namespace)
    }
}

/// How objects are watched.
pub(crate) fn watch_config() -> watcher::Config {
    watcher::Config::default().timeout(WATCH)
}

async fn config(arguments: &ConnectionArguments) -> Result<Config> {
    let options =
        KubeConfigOptions { context: arguments.context.clone(), ..KubeConfigOptions::default() };
    if let Some(path) = &arguments.kubeconfig {
        let kubeconfig = Kubeconfig::read_from(path)
            .with_context(|| format!("read the kubeconfig {}", path.display()))?;
        return Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?);
    }
    match Config::from_kubeconfig(&options).await {
        Ok(config) => Ok(config),
        // In a pod there may be none.
        Err(error) if arguments.context.is_none() => {
            Config::incluster().map_err(|_| anyhow::Error::new(error))
        }
        Err(error) => Err(error.into()),
    }
}

/// What to do about a failure that has nothing to do with what was asked.
pub(crate) fn remedy(error: &anyhow::Error) -> &'static str {
    let answer = error.chain().find_map(|cause| {
        let Some(kube::Error::Api(status)) = cause.downcast_ref() else { return None };
        Some(status)
    });
    // The API server has no such path, and answers without a Status.
    let is_unknown = answer.is_some_and(|status| status.code == 404 && status.details.is_none());
    if is_unknown { ": this cluster has no MiniClusters, install the operator first" } else { "" }
}
