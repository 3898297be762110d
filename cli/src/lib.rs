//! `kubectl flux`: runs, watches and explains MiniClusters, and enters them.
//!
//! It computes nothing that the operator or an agent already knows: it reads the operator's status from the API server,
//! and starts the agents' subcommands by exec.

mod cli;
mod commands;
mod completer;
mod completion;
mod connection;
mod duration;
mod error;
mod exec;
mod exit;
#[cfg(test)]
mod fixtures;
mod log_stream;
mod minicluster;
mod object_format;
mod output;
mod prelude;
mod progress;
mod random_name;
mod rank_pod;
mod retry;
mod signals;

use anyhow::{Context as _, Result};
use clap::{CommandFactory as _, FromArgMatches as _};
use std::process::ExitCode;

/// The command line.
pub fn command_line() -> clap::Command {
    cli::Cli::command()
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    match completer::answer() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => run(),
        Err(error) => {
            error::print_error(&error);
            ExitCode::FAILURE
        }
    }
}

fn run() -> ExitCode {
    let matches = cli::Cli::command().get_matches();
    let mut cli = cli::Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    cli.connection.names_last = minicluster::names_last(&matches);
    let failure = cli.command.failure_code();
    execute(cli).unwrap_or_else(|error| {
        error::print_error(&error);
        ExitCode::from(failure)
    })
}

fn execute(cli: cli::Cli) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("start the runtime")?;
    let done = runtime.block_on(Box::pin(cli.command.execute(&cli.connection)));
    // Waiting for the thread that reads the terminal would need another key press.
    runtime.shutdown_background();
    done
}
