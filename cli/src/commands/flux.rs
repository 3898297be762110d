//! `flux`: runs any command of Flux in the lead.

use crate::connection::Connection;
use crate::exec;
use crate::minicluster::NameArgument;
use crate::rank_pod::RankPod;
use anyhow::Result;
use clap::Args;
use std::io::{IsTerminal as _, stdin};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct Flux {
    #[command(flatten)]
    name: NameArgument,
    /// The command of Flux with its arguments
    #[arg(last = true, required = true, value_name = "ARGUMENT")]
    argv: Vec<String>,
}

impl Flux {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let lead = RankPod::lead(self.name.target(connection)).await?;
        let argv = self.argv.iter().map(String::as_str);
        let argv: Vec<&str> = std::iter::once(lead.flux.as_str()).chain(argv).collect();
        // Other input stays for the next command of a script.
        let input = stdin().is_terminal();
        exec::pass_through(&lead.target, &lead.name, &argv, input).await.map(ExitCode::from)
    }
}
