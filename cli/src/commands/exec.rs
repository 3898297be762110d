//! `exec`, `shell` and `flux`: run a command in one rank or in all, as Flux's user.

use super::logs::label;
use crate::error;
use crate::exec::{self, Streams};
use crate::exit::NOT_RUN;
use crate::minicluster::{is_running, layout};
use crate::output::reader_gone;
use crate::prelude::*;
use crate::rank_pod::{RankPod, over_ranks};
use std::io::{IsTerminal as _, stdin};

#[derive(Debug, Args)]
pub(crate) struct Exec {
    #[command(flatten)]
    name: NameArgument,
    /// The rank
    #[arg(long, short, default_value_t = 0, value_name = "RANK")]
    rank: u32,
    /// Run it in all running ranks, without input, and end with the highest exit code
    #[arg(long, conflicts_with_all = ["rank", "stdin", "tty", "container"])]
    all: bool,
    /// Pass the standard input to the command
    #[arg(long, short = 'i')]
    stdin: bool,
    /// Give the command a terminal, if this one is one: `-it` for interactive programs
    #[arg(long, short)]
    tty: bool,
    /// Run it in this container, as that container's user, instead of beside Flux
    #[arg(long, short, value_name = "NAME")]
    container: Option<String>,
    /// Program and arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Shell {
    #[command(flatten)]
    name: NameArgument,
    /// The rank
    #[arg(long, short, default_value_t = 0, value_name = "RANK")]
    rank: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Flux {
    #[command(flatten)]
    name: NameArgument,
    /// The command of Flux with its arguments
    #[arg(last = true, required = true, value_name = "ARGUMENT")]
    argv: Vec<String>,
}

impl Shell {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let pod = RankPod::find(self.name.target(connection), self.rank).await?;
        let argv = [pod.agent.as_str(), "connect"];
        exec::pass_through(&pod.target, &pod.name, &argv, true).await.map(ExitCode::from)
    }
}

impl Flux {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let lead = self.name.lead(connection).await?;
        let argv = self.argv.iter().map(String::as_str);
        let argv: Vec<&str> = std::iter::once(lead.flux.as_str()).chain(argv).collect();
        // Other input stays for the next command of a script.
        let input = stdin().is_terminal();
        exec::pass_through(&lead.target, &lead.name, &argv, input).await.map(ExitCode::from)
    }
}

impl Exec {
    pub(crate) async fn execute(&self, connection: Connection) -> Result<ExitCode> {
        let target = self.name.target(connection);
        let command: Vec<&str> = self.command.iter().map(String::as_str).collect();
        let code = if self.all {
            tokio::select! {
                code = run_in_all(&target, &command) => code?,
                () = reader_gone() => 0,
            }
        } else {
            let pod = RankPod::find(target, self.rank).await?;
            // Other containers may lack the agent.
            let container = self.container.as_deref().filter(|name| *name != pod.target.name);
            let argv = if container.is_some() { command } else { pod.as_user(&command) };
            let streams = Streams { input: self.stdin, terminal: self.tty, container };
            exec::share(&pod.target, &pod.name, &argv, streams, &mut Default::default()).await?
        };
        Ok(ExitCode::from(code))
    }
}

async fn run_in_all(target: &MiniClusterRef, command: &[&str]) -> Result<u8> {
    let (cluster, pods) = tokio::try_join!(target.get(), target.pods())?;
    let agent = layout(&cluster).agent();
    let argv = [&[agent.as_str(), "connect", "--"], command].concat();
    let (running, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
        pods.into_iter().partition(|(_, pod)| is_running(pod, &target.name));
    if running.is_empty() {
        bail!("no rank of {0} is running: see `kubectl flux status {0}`", target.name);
    }
    for rank in others.into_keys() {
        print_stderr(&format!("{} skipped: it is not running", label(rank)));
    }
    let codes = over_ranks(running, async |rank, pod| {
        let show = |is_error: bool, line: &str| {
            let line = format!("{} {line}", label(rank));
            if is_error { print_stderr(&line) } else { print(&line) }
        };
        let code = exec::lines(target, &pod.name_any(), &argv, show).await;
        code.unwrap_or_else(|error| {
            print_stderr(&format!("{} kubectl flux: {}", label(rank), error::line(&error)));
            NOT_RUN
        })
    });
    Ok(codes.await.into_iter().max().unwrap_or(NOT_RUN))
}
