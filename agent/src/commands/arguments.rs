//! Arguments that several subcommands take.

use crate::system::output::{print_json, print_text};
use crate::system::root::Root;
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use clap::{Args, ValueEnum};
use flux_contract::AGENT_CONFIG_PATH;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, Args)]
pub(crate) struct PodArguments {
    /// The agent's configuration
    #[arg(long, env = "FLUX_AGENT_CONFIG", default_value = AGENT_CONFIG_PATH, value_name = "PATH")]
    pub config: PathBuf,
    /// Look up all paths below this directory
    #[arg(long, default_value = "/", hide = true, value_parser = PathBufValueParser::new().map(Root::new))]
    pub root: Root,
    /// Take the place of the pod with this host name
    #[arg(long, hide = true)]
    pub hostname: Option<String>,
}

impl PodArguments {
    /// The arguments of a command line without any. The environment may name the configuration.
    pub(crate) fn of_this_pod() -> Self {
        let config = std::env::var_os("FLUX_AGENT_CONFIG");
        let config = config.map_or_else(|| AGENT_CONFIG_PATH.into(), PathBuf::from);
        Self { config, root: Root::new("/"), hostname: None }
    }
}

#[derive(Debug, Args)]
pub(crate) struct PodQuestion {
    #[command(flatten)]
    pub pod: PodArguments,
    #[command(flatten)]
    pub output: OutputArgument,
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, Args)]
pub struct OutputArgument {
    /// Form of the answer
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

impl OutputArgument {
    /// Prints `value` as JSON, or `text`.
    pub fn print(self, value: &impl Serialize, text: impl FnOnce() -> String) {
        match self.output {
            Format::Text => print_text(&text()),
            Format::Json => print_json(value),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Awaited {
    /// The lead broker lets this pod in.
    Lead,
    /// This pod's broker is part of its instance.
    Broker,
    /// This pod's run is complete.
    Complete,
}

/// `seconds` of a command line, at most a year, so that no addition to a time overflows.
pub(super) fn duration(seconds: u64) -> Duration {
    const LONGEST: u64 = 365 * 24 * 60 * 60;
    Duration::from_secs(seconds.min(LONGEST))
}
