//! The command `flux-operator`.

use anyhow::{Context as _, anyhow};
use clap::Parser as _;
use flux_api::cluster::validate::Defaults;
use flux_api::crd::Install;
use flux_api::crd::definition::definition;
use flux_api::images;
use flux_api::offline::{self, Checker};
use flux_operator::cli::{Cli, Command, LogFormat};
use flux_operator::ping::ping;
use flux_operator::run;
use std::io::{IsTerminal as _, Write as _, stderr, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tracing_subscriber::EnvFilter;

/// Prints `text` to the standard output. A closed output is no failure.
fn print_line(text: &str) {
    let _ = writeln!(stdout(), "{}", text.trim_end());
}

fn print_error_line(text: &str) {
    let _ = writeln!(stderr(), "{text}");
}

fn report_error(error: &anyhow::Error) {
    print_error_line(&format!("flux-operator: {error:#}"));
}

fn main() -> ExitCode {
    match execute(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            report_error(&error);
            ExitCode::FAILURE
        }
    }
}

fn execute(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(arguments) => {
            start_log(arguments.log_format, &arguments.log_level)?;
            run::run(*arguments)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Crd => {
            print_line(&serde_saphyr::to_string(&definition()?)?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Validate { files } => Ok(check(&files)),
        Command::Ping { address, timeout } => {
            ping(&address, Duration::from_secs(timeout.into()))?;
            print_line(&format!("an operator is ready at {address}"));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn check(files: &[PathBuf]) -> ExitCode {
    let view = images::VIEW_IMAGE.to_owned();
    let checker = Checker::new(Defaults::new(view, None, Install::default()));
    let all = checker.check_all(files, &mut std::io::stdin());
    offline::print(&all, print_line, print_error_line, report_error);
    ExitCode::from(offline::exit_code(&all))
}

fn start_log(format: LogFormat, level: &str) -> anyhow::Result<()> {
    let filter =
        EnvFilter::try_new(level).with_context(|| format!("read the log level {level:?}"))?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal());
    match format {
        LogFormat::Json => log.json().flatten_event(true).with_span_list(false).try_init(),
        LogFormat::Text => log.try_init(),
    }
    .map_err(|error| anyhow!(error).context("start the log"))
}
