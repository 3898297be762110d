//! `exec`: runs a command in one rank or in all.

use super::logs::label;
use crate::connection::Connection;
use crate::exec;
use crate::exit::NOT_RUN;
use crate::minicluster::{MiniClusterRef, NameArgument, agent, runner_state};
use crate::output::{print, print_stderr};
use crate::rank_pod::RankPod;
use anyhow::{Result, bail};
use clap::Args;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ContainerState;
use kube::ResourceExt as _;
use std::process::ExitCode;

/// Number of ranks in which the command runs at the same time.
const AT_ONCE: usize = 64;

#[derive(Debug, Args)]
pub(crate) struct Exec {
    #[command(flatten)]
    name: NameArgument,
    /// The rank
    #[arg(long, short, default_value_t = 0, value_name = "RANK")]
    rank: u32,
    /// Run it in all running ranks, without input, and end with the highest exit code
    #[arg(long, conflicts_with = "rank")]
    all: bool,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Exec {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let target = self.name.target(connection);
        let command: Vec<&str> = self.command.iter().map(String::as_str).collect();
        let code = if self.all {
            run_in_all(&target, &command).await?
        } else {
            let pod = RankPod::find(target, self.rank).await?;
            let argv = pod.as_user(&command);
            exec::pass_through(&pod.target, &pod.name, &argv, true).await?
        };
        Ok(ExitCode::from(code))
    }
}

/// Runs the command in all running ranks, and returns the highest exit code.
async fn run_in_all(target: &MiniClusterRef, command: &[&str]) -> Result<u8> {
    let (cluster, pods) = tokio::try_join!(target.get(), target.pods())?;
    let agent = agent(&cluster);
    let argv = [&[agent.as_str(), "connect", "--"], command].concat();
    let runs = |state: Option<&ContainerState>| state.is_some_and(|it| it.running.is_some());
    let (running, others): (Vec<_>, Vec<_>) =
        pods.into_iter().partition(|(_, pod)| runs(runner_state(pod, &target.name)));
    if running.is_empty() {
        bail!("no rank of {0} is running: see `kubectl flux status {0}`", target.name);
    }
    for (rank, _) in &others {
        print_stderr(&format!("{} skipped: it is not running", label(*rank)));
    }
    let codes = stream::iter(running).map(async |(rank, pod)| {
        let show = |is_error: bool, line: &str| {
            let line = format!("{} {line}", label(rank));
            if is_error { print_stderr(&line) } else { print(&line) }
        };
        let code = exec::lines(target, &pod.name_any(), &argv, show).await;
        code.unwrap_or_else(|error| {
            print_stderr(&format!("{} kubectl flux: {error:#}", label(rank)));
            NOT_RUN
        })
    });
    let codes: Vec<u8> = codes.buffer_unordered(AT_ONCE).collect().await;
    Ok(codes.into_iter().max().unwrap_or(NOT_RUN))
}
