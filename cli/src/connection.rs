//! The connection to a cluster, and its namespace, found as kubectl finds them.

use anyhow::{Context as _, Result};
use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher;
use kube::{Api, Client, Config};
use std::path::PathBuf;
use std::time::Duration;

/// How long a request may wait for data of the API server. Load balancers drop a connection that is silent for a minute
/// or two, some without closing it.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Seconds after which the API server ends a watch and the watcher starts another: fewer than [`READ_TIMEOUT`] has.
const WATCH_SECONDS: u32 = 15;

/// Options that choose cluster and namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ConnectionArguments {
    /// The kubeconfig [default: the files in $KUBECONFIG, or ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// Namespace [default: the namespace of the context]
    #[arg(long, short, global = true, value_name = "NAME")]
    pub namespace: Option<String>,
}

impl ConnectionArguments {
    /// The namespace of commands that read no kubeconfig: `default` unless given.
    pub(crate) fn offline_namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }
}

/// Clients of a cluster, and a namespace in it.
#[derive(Clone)]
pub(crate) struct Connection {
    pub client: Client,
    /// A client without a read timeout, for programs and ports of pods.
    pub sessions: Client,
    pub namespace: String,
}

impl Connection {
    pub(crate) async fn new(arguments: &ConnectionArguments) -> Result<Self> {
        let mut config = config(arguments).await.context("find a cluster")?;
        let mut sessions = config.clone();
        sessions.read_timeout = None;
        config.read_timeout = Some(READ_TIMEOUT);
        // The timeout starts at the request, not at the previous answer.
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

/// The configuration of all watches.
pub(crate) fn watch_config() -> watcher::Config {
    watcher::Config::default().timeout(WATCH_SECONDS)
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
        // A pod has a service account instead of a kubeconfig.
        Err(error) if arguments.context.is_none() => {
            Config::incluster().map_err(|_| anyhow::Error::new(error))
        }
        Err(error) => Err(error.into()),
    }
}

/// What to do about an error of the cluster itself, as the end of the error message.
pub(crate) fn remedy(error: &anyhow::Error) -> &'static str {
    let answer = error.chain().find_map(|cause| {
        let Some(kube::Error::Api(status)) = cause.downcast_ref() else { return None };
        Some(status)
    });
    // The API server answers without a Status where it has no such path.
    let is_unknown = answer.is_some_and(|status| status.code == 404 && status.details.is_none());
    if is_unknown { ": install the operator first, the cluster lacks its CRD" } else { "" }
}

/// The message of the API server or, if it has sent none, the whole error.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let answer = error.chain().find_map(|cause| {
        let Some(kube::Error::Api(status)) = cause.downcast_ref() else { return None };
        Some(status.message.clone())
    });
    answer.unwrap_or_else(|| format!("{error:#}"))
}
