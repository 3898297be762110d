//! `shell`: a shell in a rank.

use crate::connection::Connection;
use crate::exec;
use crate::instance::Place;
use crate::target::{NameArgument, Target};
use anyhow::Result;
use clap::Args;
use std::process::ExitCode;

/// `shell`.
#[derive(Debug, Args)]
pub(crate) struct Shell {
    #[command(flatten)]
    name: NameArgument,
    /// The rank
    #[arg(long, short, default_value_t = 0, value_name = "RANK")]
    rank: u32,
}

impl Shell {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let place = Place::of(Target::new(connection, &self.name.name), self.rank).await?;
        let words = [place.agent.as_str(), "connect"];
        exec::pass_through(&place.target, &place.pod_name(), &words, true).await.map(ExitCode::from)
    }
}
