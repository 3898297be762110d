//! The command line's part that names a cluster, which the tests read from the environment.

use crate::cluster::{ClusterChoice, ExternalCluster};
use crate::kubernetes::{
    ClusterId, IpFamily, KubernetesVersion, MOST_NODES, Network, Nodes, Options, id_of_version,
};
use anyhow::{Context as _, Result, bail};
use clap::builder::RangedU64ValueParser;
use clap::{Arg, CommandFactory as _, Parser};
use std::path::PathBuf;
use std::process::Command;

/// Which cluster to work with. Each option has a variable, which tests read.
#[derive(Debug, Clone, Parser)]
pub(crate) struct ClusterArguments {
    /// Use the cluster of this kubeconfig instead of one on this machine.
    #[arg(long, value_name = "FILE", env = "FLUX_E2E_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// How to load an image archive into that cluster, as 'kind load image-archive {}'.
    #[arg(long, value_name = "COMMAND", env = "FLUX_E2E_LOAD_COMMAND")]
    load_command: Option<String>,
    /// Name of the cluster on this machine; by default each checkout has its own of each Kubernetes.
    #[arg(long, value_name = "NAME", env = "FLUX_E2E_ID")]
    id: Option<String>,
    /// Addresses of the cluster on this machine: ipv4 or ipv6.
    #[arg(long, value_name = "KIND", env = "FLUX_E2E_IP_FAMILY", default_value_t, value_enum)]
    ip_family: IpFamily,
    /// Domain of the names of the cluster on this machine.
    #[arg(long, value_name = "DOMAIN", env = "FLUX_E2E_CLUSTER_DOMAIN",
          default_value_t = Network::default().domain)]
    cluster_domain: String,
    /// Kubernetes of the cluster on this machine.
    #[arg(long, value_name = "VERSION", env = "FLUX_E2E_KUBERNETES", default_value_t)]
    kubernetes: KubernetesVersion,
    /// Nodes of the cluster on this machine: 1 to 3, each in namespaces of its own; the first has the control
    /// plane.
    #[arg(long, value_name = "NUMBER", env = "FLUX_E2E_NODES", default_value_t = 1,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=MOST_NODES as u64))]
    nodes: usize,
}

/// Sets the variables of `command` so that its tests use this cluster, whatever the variables of this process name.
pub(crate) fn use_cluster(command: &mut Command, target: &ClusterChoice) {
    let options = ClusterArguments::command();
    for name in options.get_arguments().filter_map(Arg::get_env) {
        command.env_remove(name);
    }
    match target {
        ClusterChoice::External(ExternalCluster { kubeconfig, load_command }) => {
            command.env("FLUX_E2E_KUBECONFIG", kubeconfig);
            command.envs(load_command.as_ref().map(|it| ("FLUX_E2E_LOAD_COMMAND", it)));
        }
        // Tests that need another setup make a cluster of their own.
        ClusterChoice::Own(Options { id, network, version, nodes, .. }) => {
            command.env("FLUX_E2E_ID", id.as_str());
            command.env("FLUX_E2E_IP_FAMILY", network.ip_family.to_string());
            command.env("FLUX_E2E_CLUSTER_DOMAIN", &network.domain);
            command.env("FLUX_E2E_KUBERNETES", version.to_string());
            command.env("FLUX_E2E_NODES", nodes.count().to_string());
        }
    }
}

impl ClusterArguments {
    /// Reads the arguments from the environment variables that `--help` names.
    pub(crate) fn from_environment() -> Result<Self> {
        Self::try_parse_from(["tests"]).context("reading the variables that name a cluster")
    }

    pub(crate) fn target(&self) -> Result<ClusterChoice> {
        if let Some(kubeconfig) = self.kubeconfig.clone() {
            let load_command = self.load_command.clone();
            return Ok(ClusterChoice::External(ExternalCluster { kubeconfig, load_command }));
        }
        if self.load_command.is_some() {
            bail!("--load-command is for a cluster named by --kubeconfig");
        }
        Ok(ClusterChoice::Own(self.options()?))
    }

    fn options(&self) -> Result<Options> {
        let id = match &self.id {
            Some(name) => ClusterId::named(name)?,
            None => id_of_version(self.kubernetes)?,
        };
        let network = Network {
            ip_family: self.ip_family,
            domain: self.cluster_domain.clone(),
            ..Network::default()
        };
        let nodes = Nodes::of(self.nodes);
        Ok(Options { id, network, nodes, ..Options::of_version(self.kubernetes)? })
    }

    pub(crate) fn own(&self) -> Result<Options> {
        self.target()?.own().cloned().context("the cluster of a kubeconfig is not ours to end")
    }
}
