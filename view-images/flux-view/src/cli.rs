//! The command line.

use crate::check::{CheckRequest, check_view};
use crate::pack::{PackError, PackReport, PackRequest, pack};
use clap::{CommandFactory as _, Parser, Subcommand};
use flux_agent::commands::OutputArgument;
use flux_agent::system::check::{Check, any_failed, text};
use flux_agent::system::output::{chain, exit_code, print_stderr};
use flux_contract::{Exit, Layout};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Code of a check that failed.
const CHECK_FAILED: u8 = 1;

/// Makes view images of an installed Flux, and checks them.
#[derive(Debug, Parser)]
#[command(name = "flux-view", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a view from an installed Flux, with all that it needs to run in any image
    Pack {
        /// Prefix of the Flux installation, or where it was put instead (DESTDIR)
        #[arg(long, value_name = "DIRECTORY")]
        from: PathBuf,
        /// Root of the image to be made: the view is written below it, at its place at run time
        #[arg(long, value_name = "DIRECTORY")]
        to: PathBuf,
        /// Where the shared volume will be mounted; Flux was built for the prefix PATH/view
        #[arg(long, default_value = Layout::DEFAULT_MOUNT, value_name = "PATH")]
        mount_path: PathBuf,
        /// Replace a view that is there
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        output: OutputArgument,
        /// Root of the file system that Flux is installed in
        #[arg(long, default_value = "/", hide = true)]
        root: PathBuf,
    },
    /// Say whether an image holds a view, which, and whether it runs in an application's image
    Check {
        /// Root of the view image
        #[arg(value_name = "IMAGE-ROOT")]
        root: PathBuf,
        /// Root of an application's image
        #[arg(long, value_name = "ROOT")]
        application: Option<PathBuf>,
        /// Where the shared volume will be mounted
        #[arg(long, default_value = Layout::DEFAULT_MOUNT, value_name = "PATH")]
        mount_path: PathBuf,
        #[command(flatten)]
        output: OutputArgument,
    },
}

/// The command line as a value: what pages say to type is checked against it.
pub fn command_line() -> clap::Command {
    Cli::command()
}

/// Reads the command line, does what it says, and returns the code to end with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nothing is to be done where even this cannot be printed.
            let _ = error.print();
            let code = if error.use_stderr() { Exit::Usage.code() } else { 0 };
            return ExitCode::from(code);
        }
    };
    let code = match cli.command {
        Command::Pack { from, to, mount_path, force, output, root } => {
            run_pack(&PackRequest { root, from, to, mount_path, force }, output)
        }
        Command::Check { root, application, mount_path, output } => {
            let checks = check_view(&CheckRequest { root, application, mount_path });
            output.print(&checks, || text(&checks));
            code_of(&checks)
        }
    };
    ExitCode::from(exit_code(code))
}

/// What was packed, and what a check of it found.
#[derive(Debug, Serialize)]
struct Packed {
    #[serde(flatten)]
    report: PackReport,
    checks: Vec<Check>,
}

fn run_pack(request: &PackRequest, output: OutputArgument) -> u8 {
    let report = match pack(request, &mut log) {
        Ok(report) => report,
        Err(error) => {
            if let PackError::Faults(faults) = &error {
                for fault in faults {
                    log(&format!("fault: {}", fault.cause));
                    log(&format!("remedy: {}", fault.remedy));
                }
            }
            log(&chain(&error));
            return Exit::View.code();
        }
    };
    let checks = check_view(&CheckRequest {
        root: request.to.clone(),
        application: None,
        mount_path: request.mount_path.clone(),
    });
    let packed = Packed { report, checks };
    output.print(&packed, || format!("{}{}", packed.report, text(&packed.checks)));
    code_of(&packed.checks)
}

fn code_of(checks: &[Check]) -> u8 {
    if any_failed(checks) { CHECK_FAILED } else { 0 }
}

fn log(line: &str) {
    print_stderr(&format!("flux-view: {line}"));
}
