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
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch every MiniCluster and run it
    Run(Box<RunArguments>),
    /// Print the custom resource definition of MiniCluster
    Crd,
    /// Check MiniCluster files without a cluster: print every fault with its line
    ///
    /// Exit code 0: everything is valid; 1: there is a fault; 2: something cannot be read.
    Validate {
        /// YAML or JSON files, directories of such files, or - for the standard input; objects of
        /// other kinds are skipped
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Wait until an operator is ready behind the Service of its metrics
    Ping {
        /// Name and port of the Service: flux-operator-metrics:8080
        address: String,
        /// Seconds to wait
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        timeout: u32,
    },
}

/// Options of `run`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct RunArguments {
    /// Image with the agent
    #[arg(long, env = "FLUX_OPERATOR_AGENT_IMAGE", value_name = "IMAGE")]
    #[arg(default_value = AGENT_IMAGE)]
    pub agent_image: String,
    /// Pull policy of the agent image
    #[arg(long, env = "FLUX_OPERATOR_AGENT_PULL_POLICY", value_name = "POLICY")]
    #[arg(default_value = "IfNotPresent", value_parser = ["Always", "IfNotPresent", "Never"])]
    pub agent_pull_policy: String,
    /// View image of a MiniCluster that names none
    #[arg(long, env = "FLUX_OPERATOR_VIEW_IMAGE", value_name = "IMAGE")]
    #[arg(default_value = VIEW_IMAGE)]
    pub view_image: String,
    /// View image of a MiniCluster that names none and has `flux.arch: arm`; by default the image of
    /// `--view-image`, or, for the published Ubuntu view, its image for ARM
    #[arg(long, env = "FLUX_OPERATOR_ARM_VIEW_IMAGE", value_name = "IMAGE")]
    pub arm_view_image: Option<String>,
    /// How agent and view come into the pods of a MiniCluster without `flux.container.install`
    #[arg(long, env = "FLUX_OPERATOR_INSTALL", value_name = "METHOD", value_parser = install_method())]
    #[arg(default_value = "Auto", ignore_case = true)]
    pub install: Install,
    /// Domain of the cluster's Services; by default the one in the resolv.conf of the operator's pod
    #[arg(long, env = "FLUX_OPERATOR_CLUSTER_DOMAIN", value_name = "DOMAIN")]
    pub cluster_domain: Option<String>,
    /// Watch this namespace only, or these, separated by commas
    #[arg(long, env = "FLUX_OPERATOR_NAMESPACE", value_name = "NAMESPACE", value_delimiter = ',')]
    pub namespace: Vec<String>,
    /// Number of reconciles that run at the same time, in each namespace where there are several
    #[arg(long, env = "FLUX_OPERATOR_CONCURRENCY", value_name = "NUMBER", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub concurrency: u16,
    /// Number of finished MiniClusters that a namespace keeps: of more, the oldest are deleted; by default all stay
    #[arg(long, env = "FLUX_OPERATOR_KEEP_FINISHED", value_name = "NUMBER")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_finished: Option<u32>,
    /// Reconcile only while holding a Lease, so that several operators may run
    #[arg(long, env = "FLUX_OPERATOR_LEADER_ELECT", num_args = 0..=1)]
    #[arg(default_value_t = false, default_missing_value = "true", require_equals = true)]
    #[arg(action = clap::ArgAction::Set)]
    pub leader_elect: bool,
    /// Name of the Lease
    #[arg(long, env = "FLUX_OPERATOR_LEASE_NAME", value_name = "NAME")]
    #[arg(default_value = "flux-operator")]
    pub lease_name: String,
    /// Namespace of the Lease; by default the operator's own
    #[arg(long, env = "FLUX_OPERATOR_LEASE_NAMESPACE", value_name = "NAMESPACE")]
    pub lease_namespace: Option<String>,
    /// Name of this operator in Events and, with a random suffix, in the Lease; by default its pod's name
    #[arg(long, env = "HOSTNAME", value_name = "NAME", default_value = "flux-operator")]
    pub identity: String,
    /// Address of /metrics; `[::]` also receives IPv4
    #[arg(long, env = "FLUX_OPERATOR_METRICS_BIND", value_name = "ADDRESS")]
    #[arg(default_value = "[::]:8080")]
    pub metrics_bind: SocketAddr,
    /// Serve /metrics over TLS, to those whom Kubernetes allows to read it; if false, over plain HTTP to anyone
    #[arg(long, env = "FLUX_OPERATOR_METRICS_SECURE", num_args = 0..=1)]
    #[arg(default_value_t = true, default_missing_value = "true", require_equals = true)]
    #[arg(action = clap::ArgAction::Set)]
    pub metrics_secure: bool,
    /// Directory with the certificate of /metrics as tls.crt and tls.key, read again when they change; by default the
    /// operator makes a self-signed one
    #[arg(long, env = "FLUX_OPERATOR_METRICS_CERT_PATH", value_name = "DIRECTORY")]
    pub metrics_cert_path: Option<PathBuf>,
    /// Address of /healthz and /readyz; `[::]` also receives IPv4
    #[arg(long, env = "FLUX_OPERATOR_HEALTH_BIND", value_name = "ADDRESS")]
    #[arg(default_value = "[::]:8081")]
    pub health_bind: SocketAddr,
    /// Format of the log lines
    #[arg(long, env = "FLUX_OPERATOR_LOG_FORMAT", value_enum, default_value = "json")]
    pub log_format: LogFormat,
    /// Level of the log, or directives such as `info,kube=debug`
    #[arg(long, env = "FLUX_OPERATOR_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub log_level: String,
}

fn install_method() -> impl TypedValueParser<Value = Install> {
    PossibleValuesParser::new(Install::NAMES).try_map(|name| name.parse::<Install>())
}

/// Format of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// Text for people.
    Text,
}

#[cfg(test)]
mod tests {
    use super::*;

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
