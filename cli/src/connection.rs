//! The connection to a cluster, and its namespace, found as kubectl finds them.

use crate::duration::duration;
use crate::error;
use anyhow::{Context as _, Result};
use clap::Args;
use flux_api::crd::MiniCluster;
use http::Uri;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher;
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// How long a request may wait for data of the API server. Load balancers drop a connection that is silent for a minute
/// or two, some without closing it.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

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
    /// Longest time to wait for an answer of the API server or its next part, e.g. 10s; 0 for the default [default: 30s]
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration)]
    pub request_timeout: Option<Duration>,
    #[command(flatten)]
    pub access: Access,
    /// True where the command line names the newest MiniCluster.
    #[arg(skip)]
    pub names_last: bool,
}

/// The options of kubectl that take the place of values of the kubeconfig for one command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct Access {
    /// Cluster of the kubeconfig
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    pub cluster: Option<String>,
    /// User of the kubeconfig
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    pub user: Option<String>,
    /// Address of the API server
    #[arg(long, global = true, hide_short_help = true, value_name = "URL")]
    pub server: Option<Uri>,
    /// Bearer token
    #[arg(long, global = true, hide_short_help = true)]
    token: Option<String>,
    /// Certificate of the authority that the server's certificate comes from
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,
    /// Certificate of the user
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    client_certificate: Option<String>,
    /// Key of the user's certificate
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    client_key: Option<String>,
    /// Accept any certificate of the server: anyone on the way can then read and change everything
    #[arg(long, global = true, hide_short_help = true, num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_name = "BOOL")]
    insecure_skip_tls_verify: Option<bool>,
    /// Name in the server's certificate [default: the host of the address]
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// User to act as
    #[arg(long = "as", global = true, hide_short_help = true, value_name = "USER")]
    as_user: Option<String>,
    /// Group to act as
    #[arg(long, global = true, hide_short_help = true, value_name = "GROUP")]
    as_group: Vec<String>,
    /// Uid to act as
    #[arg(long, global = true, hide_short_help = true, value_name = "UID")]
    as_uid: Option<String>,
}

impl Access {
    pub(crate) fn apply(&self, config: &mut Config) -> Result<()> {
        if let Some(token) = &self.token {
            let token = json!({ "token": token });
            config.auth_info = serde_json::from_value(token).context("use --token")?;
        }
        if let Some(server) = &self.server {
            config.cluster_url = server.clone();
        }
        let is_insecure = self.insecure_skip_tls_verify;
        config.accept_invalid_certs = is_insecure.unwrap_or(config.accept_invalid_certs);
        set(&mut config.root_cert_file, self.certificate_authority.as_ref());
        set(&mut config.tls_server_name, self.tls_server_name.as_ref());
        let user = &mut config.auth_info;
        user.client_certificate_data.take_if(|_| self.client_certificate.is_some());
        set(&mut user.client_certificate, self.client_certificate.as_ref());
        user.client_key_data.take_if(|_| self.client_key.is_some());
        set(&mut user.client_key, self.client_key.as_ref());
        set(&mut user.impersonate, self.as_user.as_ref());
        set(&mut user.impersonate_uid, self.as_uid.as_ref());
        let groups = Some(&self.as_group).filter(|groups| !groups.is_empty());
        set(&mut user.impersonate_groups, groups);
        Ok(())
    }
}

fn set<T: Clone>(value: &mut Option<T>, given: Option<&T>) {
    if given.is_some() {
        *value = given.cloned();
    }
}

#[derive(Clone)]
pub(crate) struct Connection {
    pub client: Client,
    /// A client without a read timeout, for programs and ports of pods.
    pub sessions: Client,
    pub namespace: String,
    pub has_namespace: bool,
    read_timeout: Duration,
    pub last: Option<String>,
}

impl Connection {
    pub(crate) async fn new(arguments: &ConnectionArguments) -> Result<Self> {
        let (mut config, context) = config(arguments).await.context("find a cluster")?;
        let mut sessions = config.clone();
        sessions.read_timeout = None;
        let asked = arguments.request_timeout.filter(|timeout| !timeout.is_zero());
        let read_timeout = asked.unwrap_or(READ_TIMEOUT);
        config.read_timeout = Some(read_timeout);
        if asked.is_some() {
            config.connect_timeout = asked;
            sessions.connect_timeout = asked;
        }
        // The timeout starts at the request, not at the previous answer.
        config.reset_reader_on_write = true;
        let namespace =
            arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let context = context.map(|name| format!(" (context {name})"));
        error::set_server(format!("{}{}", config.cluster_url, context.unwrap_or_default()));
        let [client, sessions] = [config, sessions].map(Client::try_from);
        let making = "make a client of the kubeconfig";
        let mut connection = Self {
            client: client.context(making)?,
            sessions: sessions.context(making)?,
            namespace,
            has_namespace: arguments.namespace.is_some(),
            read_timeout,
            last: None,
        };
        if arguments.names_last {
            connection.last = Some(connection.newest().await?);
        }
        Ok(connection)
    }

    async fn newest(&self) -> Result<String> {
        let list = self.api::<MiniCluster>().list_metadata(&ListParams::default()).await;
        let all = list.context("list MiniClusters")?.items.into_iter();
        let newest = all.max_by_key(|it| (it.creation_timestamp(), it.name_any()));
        let none = || format!("there is no MiniCluster in the namespace {}", self.namespace);
        Ok(newest.with_context(none)?.name_any())
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The configuration of all watches: the API server ends each before the time is over in which its silence would be a
    /// failure, and the watcher starts another.
    pub(crate) fn watch_config(&self) -> watcher::Config {
        let seconds = (self.read_timeout / 2).as_secs().max(1);
        watcher::Config::default().timeout(u32::try_from(seconds).unwrap_or(u32::MAX))
    }

    pub(crate) fn sessions(&self) -> Api<Pod> {
        Api::namespaced(self.sessions.clone(), &self.namespace)
    }
}

async fn config(arguments: &ConnectionArguments) -> Result<(Config, Option<String>)> {
    let ConnectionArguments { kubeconfig, context, access, .. } = arguments;
    let (cluster, user) = (access.cluster.clone(), access.user.clone());
    let is_named = context.is_some() || cluster.is_some() || user.is_some();
    let options = KubeConfigOptions { context: context.clone(), cluster, user };
    let read = kubeconfig.as_ref().map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    let mut context = context.clone();
    let loaded = match read {
        Ok(read) => {
            context = context.or_else(|| read.current_context.clone());
            Config::from_custom_kubeconfig(read, &options).await
        }
        Err(error) => Err(error),
    };
    let mut config = match (loaded, &access.server) {
        (Ok(config), _) => config,
        (Err(error), _) if is_named || kubeconfig.is_some() => return Err(error.into()),
        (Err(_), Some(server)) => Config::new(server.clone()),
        // A pod has a service account instead of a kubeconfig.
        (Err(error), None) => Config::incluster().map_err(|_| error)?,
    };
    access.apply(&mut config)?;
    Ok((config, context))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        access: Access,
    }

    #[test]
    fn options_take_the_place_of_the_kubeconfig() {
        let words = "flux --server https://a:1 --token=t --as=u --as-group=g --as-group=h --as-uid=7 \
                     --client-key=k --client-certificate=c --insecure-skip-tls-verify=true \
                     --tls-server-name=n --certificate-authority=ca";
        let mut config = Config::new(Uri::from_static("http://old"));
        Line::parse_from(words.split_whitespace()).access.apply(&mut config).unwrap();
        let user = json!({
            "token": "t", "as": "u", "as-groups": ["g", "h"], "as-uid": "7",
            "client-certificate": "c", "client-key": "k",
        });
        assert_eq!(json!(config.auth_info), user);
        assert_eq!(config.cluster_url, "https://a:1");
        assert_eq!(
            (config.accept_invalid_certs, config.tls_server_name.as_deref()),
            (true, Some("n"))
        );
        assert_eq!(config.root_cert_file, Some("ca".into()));
    }
}
