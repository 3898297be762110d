//! The command line.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use flux_api::crd::Install;
use flux_api::images::{AGENT_IMAGE, VIEW_IMAGE};
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
    /// Check MiniCluster files without a cluster: print every fault with its line
    ///
    /// Ends with 0 if everything is valid, 1 if there is a fault, 2 if something cannot be read.
    Validate {
        /// YAML or JSON files, directories of such files, or - for the standard input; other kinds
        /// than MiniCluster are passed over
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
    #[arg(default_value = VIEW_IMAGE)]
    pub view_image: String,
    /// View image where a MiniCluster names none and has `flux.arch: arm`. Unless given, it is that of
    /// `--view-image`; if that is the published view for Ubuntu, it is its image for ARM
    #[arg(long, env = "FLUX_OPERATOR_ARM_VIEW_IMAGE", value_name = "IMAGE")]
    pub arm_view_image: Option<String>,
    /// How agent and view come into the pods where a MiniCluster does not say
    #[arg(long, env = "FLUX_OPERATOR_INSTALL", value_name = "METHOD", value_parser = install())]
    #[arg(default_value = "Auto", ignore_case = true)]
    pub install: Install,
    /// Domain of the cluster's Services; unless given, that of the operator's own pod
    #[arg(long, env = "FLUX_OPERATOR_CLUSTER_DOMAIN", value_name = "DOMAIN")]
    pub cluster_domain: Option<String>,
    /// Watch this namespace only
    #[arg(long, env = "FLUX_OPERATOR_NAMESPACE", value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Reconciles that run at the same time
    #[arg(long, env = "FLUX_OPERATOR_CONCURRENCY", value_name = "NUMBER", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub concurrency: u16,
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
    /// Name of this operator in Events and, with a random end, in the Lease; its pod's unless given
    #[arg(long, env = "HOSTNAME", value_name = "NAME", default_value = "flux-operator")]
    pub identity: String,
    /// Address of /metrics; `[::]` is every address, of IPv4 too
    #[arg(long, env = "FLUX_OPERATOR_METRICS_BIND", value_name = "ADDRESS")]
    #[arg(default_value = "[::]:8080")]
    pub metrics_bind: SocketAddr,
    /// Address of /healthz and /readyz; `[::]` is every address, of IPv4 too
    #[arg(long, env = "FLUX_OPERATOR_HEALTH_BIND", value_name = "ADDRESS")]
    #[arg(default_value = "[::]:8081")]
    pub health_bind: SocketAddr,
    /// Form of the log lines
    #[arg(long, env = "FLUX_OPERATOR_LOG_FORMAT", value_enum, default_value = "json")]
    pub log_format: LogFormat,
    /// Level of the log, or directives such as `info,kube=debug`
    #[arg(long, env = "FLUX_OPERATOR_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub log_level: String,
}

/// Reads the name of an [`Install`].
fn install() -> impl TypedValueParser<Value = Install> {
    PossibleValuesParser::new(Install::NAMES).try_map(|name| name.parse::<Install>())
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

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
        let command = Cli::try_parse_from(line).unwrap().command;
        let Command::Run(arguments) = command else { panic!("{command:?} is not run") };
        arguments.leader_elect
    }

    #[test]
    fn leader_elect_takes_an_optional_value() {
        assert!(leader_elect(&["--leader-elect"]));
        assert!(leader_elect(&["--leader-elect=true"]));
        assert!(!leader_elect(&["--leader-elect=false"]));
        assert!(!leader_elect(&[]));
    }
}
