//! The command line of `cargo verify`.

use crate::cli::ClusterArguments;
use clap::Args;

/// What is to be verified, and where.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) cluster: ClusterArguments,
    /// Run only the cluster tests whose names contain this text.
    #[arg(long, value_name = "TEXT")]
    pub(super) test: Option<String>,
    /// Run every check: also those that the change cannot have broken, and those of each night, such as other
    /// architectures, versions of Kubernetes, containerds and schedulers, and nodes that fail.
    #[arg(long)]
    pub(super) all: bool,
    /// Leave the cluster up at the end.
    #[arg(long)]
    pub(super) keep: bool,
    /// Fail where the tests on a cluster cannot run, instead of reporting that.
    #[arg(long)]
    pub(super) require_cluster: bool,
}
