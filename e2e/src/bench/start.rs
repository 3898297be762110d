//! `bench start`: how long a MiniCluster takes from `kubectl apply` to its command's end.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};
use clap::Args;

/// What `bench start` is asked for.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How often each contender starts.
    #[arg(long, value_name = "N", default_value_t = 7)]
    rounds: usize,
    /// Numbers of pods.
    #[arg(long, value_name = "PODS", value_delimiter = ',', default_value = "4,24")]
    sizes: Vec<u32>,
    /// A tar of a view, members rooted at `mnt/flux/view`; else what `FLUX_VIEW_ARCHIVE` says, else the stand-in.
    #[arg(long, value_name = "FILE")]
    view_archive: Option<PathBuf>,
    /// How long the cluster's DNS may answer from its cache; 0 for no cache.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    dns_cache: u32,
    /// Where the results are written; by default docs/performance of this checkout.
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
}

impl Arguments {
    /// Measures, and writes what was found.
    pub fn run(&self) -> Result<ExitCode> {
        bail!("`bench start` does not exist yet: {self:?}")
    }
}
