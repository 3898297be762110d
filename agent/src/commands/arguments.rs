//! Arguments that several subcommands take.

use crate::system::output::{print_json, print_text};
use crate::system::root::Root;
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use clap::{Args, ValueEnum};
use flux_contract::AGENT_CONFIG_PATH;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Which pod a command is about.
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
    /// Those of a command line without any: the environment may name the configuration.
    pub(crate) fn of_this_pod() -> Self {
        let config = std::env::var_os("FLUX_AGENT_CONFIG");
        let config = config.map_or_else(|| AGENT_CONFIG_PATH.into(), PathBuf::from);
        Self { config, root: Root::new("/"), hostname: None }
    }
}

/// A question about a pod.
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
    /// Prints `value` in the form asked for; `text` is the one for people.
    pub fn print(self, value: &impl Serialize, text: impl FnOnce() -> String) {
        match self.output {
            Format::Text => print_text(&text()),
            Format::Json => print_json(value),
        }
    }
}

/// What one can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Awaited {
    /// The lead broker lets this pod in.
    Lead,
    /// This pod's broker is part of its instance.
    Broker,
    /// This pod's run is complete.
    Complete,
}

/// `seconds` of a command line: a year at most, which every clock can still count to.
pub(super) fn duration(seconds: u64) -> Duration {
    const LONGEST: u64 = 365 * 24 * 60 * 60;
    Duration::from_secs(seconds.min(LONGEST))
}
