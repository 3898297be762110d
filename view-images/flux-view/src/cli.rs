//! The command line.

use crate::check::{CheckRequest, check_view};
use crate::pack::{PackReport, PackRequest, pack};
use clap::{CommandFactory as _, Parser, Subcommand};
use flux_agent::commands::OutputArgument;
use flux_agent::system::check::{Check, any_failed, text};
use flux_agent::system::output::{chain, exit_code, print_stderr};
use flux_contract::Exit;
use serde::Serialize;
use std::process::ExitCode;

/// Makes view images from an installed Flux, and checks them.
#[derive(Debug, Parser)]
#[command(name = "flux-view", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a view from an installed Flux, with everything that it needs to run in any image
    Pack {
        #[command(flatten)]
        request: PackRequest,
        #[command(flatten)]
        output: OutputArgument,
    },
    /// Check which view an image has, and whether it runs in an application's image
    Check {
        #[command(flatten)]
        request: CheckRequest,
        #[command(flatten)]
        output: OutputArgument,
    },
}

/// The command line as a value. A test compares the commands on the pages with it.
pub fn command_line() -> clap::Command {
    Cli::command()
}

/// Runs the command line, and returns the exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // There is no way to report that printing failed.
            let _ = error.print();
            let code = if error.use_stderr() { Exit::Usage.code() } else { 0 };
            return ExitCode::from(code);
        }
    };
    let code = match cli.command {
        Command::Pack { request, output } => run_pack(request, output),
        Command::Check { request, output } => {
            let checks = check_view(&request);
            output.print(&checks, || text(&checks));
            u8::from(any_failed(&checks))
        }
    };
    ExitCode::from(exit_code(code))
}

#[derive(Debug, Serialize)]
struct Packed {
    #[serde(flatten)]
    report: PackReport,
    checks: Vec<Check>,
}

fn run_pack(request: PackRequest, output: OutputArgument) -> u8 {
    let report = match pack(&request, log) {
        Ok(report) => report,
        Err(error) => {
            log(&chain(error.as_ref()));
            return Exit::View.code();
        }
    };
    let PackRequest { to: root, mount_path, .. } = request;
    let checks = check_view(&CheckRequest { root, application: None, mount_path });
    let packed = Packed { report, checks };
    output.print(&packed, || format!("{}{}", packed.report, text(&packed.checks)));
    u8::from(any_failed(&packed.checks))
}

fn log(line: &str) {
    print_stderr(&format!("flux-view: {line}"));
}
