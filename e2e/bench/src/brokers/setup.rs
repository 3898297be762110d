//! What a round measures.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What an instance runs once all its brokers are there.
pub(super) const COMMAND: &str = "touch /run/quorum; exec sleep infinity";

/// What all rounds have in common.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(super) struct Setup {
    /// The directory `view` that a real Flux was built for and is installed in.
    #[arg(long, value_name = "DIRECTORY", default_value = "/mnt/flux/view")]
    pub(super) flux: PathBuf,
    /// `tbon.topo` of all contenders; by default the operator's for the agents, and Flux's for `flux start`.
    #[arg(long, value_name = "TOPOLOGY")]
    pub(super) topology: Option<String>,
    /// How long each packet from and to the lead takes, as 1ms. Needs netem in the kernel.
    #[arg(long, value_name = "TIME")]
    pub(super) delay: Option<String>,
    /// The lead does not come: counts how often the workers try in each of so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(super) late: Option<u32>,
}

/// What starts the brokers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Contender {
    /// An agent for each broker, in a network namespace of its own.
    Agents,
    /// `flux start --test-size`, in one.
    FluxStart,
}

impl Contender {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// A number of seconds, with or without its unit.
fn seconds(text: &str) -> Result<u32, std::num::ParseIntError> {
    text.strip_suffix('s').unwrap_or(text).parse()
}

/// One start, which a process of its own reads from its command line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(super) count: u16,
    pub(super) contender: Contender,
    /// The program of an agent.
    pub(super) agent: PathBuf,
    pub(super) setup: Setup,
}
