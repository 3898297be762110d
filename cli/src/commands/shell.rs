//! `shell`: opens a shell in the pod of a rank.

use crate::connection::Connection;
use crate::exec;
use crate::minicluster::NameArgument;
use crate::rank_pod::RankPod;
use anyhow::Result;
use clap::Args;
use std::process::ExitCode;

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
        let pod = RankPod::find(self.name.target(connection), self.rank).await?;
        let argv = [pod.agent.as_str(), "connect"];
        exec::pass_through(&pod.target, &pod.name, &argv, true).await.map(ExitCode::from)
    }
}
