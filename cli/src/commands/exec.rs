//! `exec`: a command in a rank, or in all.

use super::logs::label;
use crate::connection::Connection;
use crate::exec::{self, NOT_RUN};
use crate::instance::Place;
use crate::output::{complain, print};
use crate::target::{NameArgument, Target, agent, runner_state};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ContainerState;
use kube::ResourceExt as _;
use std::process::ExitCode;

/// Ranks in which it runs at the same time.
const AT_ONCE: usize = 64;

/// `exec`.
#[derive(Debug, Args)]
pub(crate) struct Exec {
    #[command(flatten)]
    name: NameArgument,
    /// The rank
    #[arg(long, short, default_value_t = 0, value_name = "RANK")]
    rank: u32,
    /// In all ranks that run, without input; the exit code is the highest
    #[arg(long, conflicts_with = "rank")]
    all: bool,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Exec {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let target = Target::new(connection, &self.name.name);
        let command: Vec<&str> = self.command.iter().map(String::as_str).collect();
        let code = if self.all {
            everywhere(&target, &command).await?
        } else {
            let place = Place::of(target, self.rank).await?;
            let words = place.as_user(&command);
            exec::pass_through(&place.target, &place.pod_name(), &words, true).await?
        };
        Ok(ExitCode::from(code))
    }
}

/// Runs the command in all ranks that run, and returns the highest exit code.
async fn everywhere(target: &Target, command: &[&str]) -> Result<u8> {
    let (cluster, pods) = tokio::try_join!(target.get(), target.pods())?;
    let agent = agent(&cluster);
    let words = [&[agent.as_str(), "connect", "--"], command].concat();
    let runs = |state: Option<&ContainerState>| state.is_some_and(|it| it.running.is_some());
    let (running, others): (Vec<_>, Vec<_>) =
        pods.into_iter().partition(|(_, pod)| runs(runner_state(pod, &target.name)));
    if running.is_empty() {
        bail!("no rank of {0} runs: `kubectl flux status {0}` shows what they do", target.name);
    }
    for (rank, _) in &others {
        complain(&format!("{} it does not run: left out", label(*rank)));
    }
    let codes = stream::iter(running).map(async |(rank, pod)| {
        let show = |is_error: bool, line: &str| {
            let line = format!("{} {line}", label(rank));
            if is_error { complain(&line) } else { print(&line) }
        };
        let code = exec::lines(target, &pod.name_any(), &words, show).await;
        code.unwrap_or_else(|error| {
            complain(&format!("{} kubectl flux: {error:#}", label(rank)));
            NOT_RUN
        })
    });
    let codes: Vec<u8> = codes.buffer_unordered(AT_ONCE).collect().await;
    codes.into_iter().max().context("no rank has answered")
}
