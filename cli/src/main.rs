//! `kubectl flux`: runs, watches and explains MiniClusters, and enters them.
//!
//! It computes nothing that the operator or an agent already knows: it asks the API server for the one's status and,
//! by exec, the others for their answers.

mod chart;
mod cli;
mod commands;
mod completion;
mod connection;
mod exec;
mod instance;
mod log;
mod output;
mod target;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    match completion::is_answered() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => run(),
        Err(error) => {
            output::complain(&format!("kubectl flux: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> ExitCode {
    let cli = cli::Cli::parse();
    let failure = cli.command.failure_code();
    execute(cli).unwrap_or_else(|error| {
        output::complain(&format!("kubectl flux: {error:#}{}", connection::remedy(&error)));
        ExitCode::from(failure)
    })
}

fn execute(cli: cli::Cli) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("start the runtime")?;
    let done = runtime.block_on(Box::pin(cli.command.execute(&cli.connection)));
    // A thread that reads the terminal would wait for the next key.
    runtime.shutdown_background();
    done
}
