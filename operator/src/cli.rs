//! The command line.

use crate::manifests::AGENT_IMAGE;
use crate::telemetry::LogFormat;
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Runs Flux on Kubernetes: makes a Flux instance of each MiniCluster.
#[derive(Debug, Parser)]
#[command(name = "flux-operator", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch every MiniCluster and run it
    Run(Box<RunArguments>),
    /// Print the custom resource definition of MiniCluster
    Crd,
    /// Write the manifests that install the operator
    Manifests {
        /// Directory to write to; it must exist
        #[arg(long, value_name = "DIRECTORY")]
        output_directory: PathBuf,
    },
    /// Check MiniCluster files without a cluster: print every fault, end with 1 if there is one
    Validate {
        /// YAML files, each with one or more documents; other kinds are passed over
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

/// Options of `run`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct RunArguments {
    /// Image that holds the agent
    #[arg(long, env = "FLUX_OPERATOR_AGENT_IMAGE", value_name = "IMAGE")]
    #[arg(default_value = AGENT_IMAGE)]
    pub agent_image: String,
    /// Pull policy of the agent image
    #[arg(long, env = "FLUX_OPERATOR_AGENT_PULL_POLICY", value_name = "POLICY")]
    #[arg(default_value = "IfNotPresent", value_parser = ["Always", "IfNotPresent", "Never"])]
    pub agent_pull_policy: String,
    /// View image where a MiniCluster names none
    #[arg(long, env = "FLUX_OPERATOR_VIEW_IMAGE", value_name = "IMAGE")]
    #[arg(default_value = DEFAULT_VIEW_IMAGE)]
    pub view_image: String,
    /// Watch this namespace only
    #[arg(long, env = "FLUX_OPERATOR_NAMESPACE", value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Act only while holding a Lease, so that several operators may run
    #[arg(long, env = "FLUX_OPERATOR_LEADER_ELECT", num_args = 0..=1)]
    #[arg(default_value_t = false, default_missing_value = "true", require_equals = true)]
    #[arg(action = clap::ArgAction::Set)]
    pub leader_elect: bool,
    /// Name of the Lease
    #[arg(long, env = "FLUX_OPERATOR_LEASE_NAME", value_name = "NAME")]
    #[arg(default_value = "flux-operator")]
    pub lease_name: String,
    /// Namespace of the Lease; the operator's own unless given
    #[arg(long, env = "FLUX_OPERATOR_LEASE_NAMESPACE", value_name = "NAMESPACE")]
    pub lease_namespace: Option<String>,
    /// Name of this operator in the Lease and in Events; its pod's unless given
    #[arg(long, env = "HOSTNAME", value_name = "NAME", default_value = "flux-operator")]
    pub identity: String,
    /// Address of /metrics
    #[arg(long, env = "FLUX_OPERATOR_METRICS_BIND", value_name = "ADDRESS")]
    #[arg(default_value = "0.0.0.0:8080")]
    pub metrics_bind: SocketAddr,
    /// Address of /healthz and /readyz
    #[arg(long, env = "FLUX_OPERATOR_HEALTH_BIND", value_name = "ADDRESS")]
    #[arg(default_value = "0.0.0.0:8081")]
    pub health_bind: SocketAddr,
    /// Form of the log lines
    #[arg(long, env = "FLUX_OPERATOR_LOG_FORMAT", value_enum, default_value = "json")]
    pub log_format: LogFormat,
    /// Level of the log, or directives such as `info,kube=debug`
    #[arg(long, env = "FLUX_OPERATOR_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub log_level: String,
}

/// The view image where nobody names one.
pub const DEFAULT_VIEW_IMAGE: &str = "ghcr.io/converged-computing/flux-view-ubuntu:tag-noble";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    fn leader_elect(arguments: &[&str]) -> bool {
        let line = ["flux-operator", "run"].iter().chain(arguments);
        match Cli::try_parse_from(line).unwrap().command {
            Command::Run(arguments) => arguments.leader_elect,
            Command::Crd | Command::Manifests { .. } | Command::Validate { .. } => {
                panic!("not run")
            }
        }
    }

    #[test]
    fn leader_election_can_be_asked_for_with_and_without_a_value() {
        assert!(leader_elect(&["--leader-elect"]));
        assert!(leader_elect(&["--leader-elect=true"]));
        assert!(!leader_elect(&["--leader-elect=false"]));
        assert!(!leader_elect(&[]));
    }
}
