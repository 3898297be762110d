//! The command `flux-operator`.

use anyhow::{Context as _, anyhow};
use clap::Parser as _;
use flux_operator::cli::{Cli, Command, LogFormat, defaults};
use flux_operator::crd::Install;
use flux_operator::crd::definition::definition;
use flux_operator::offline::{Checker, Findings};
use flux_operator::{images, run};
use std::io::{IsTerminal as _, Write as _, stderr, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Exit code of `validate` when something cannot be read; clap's own for a wrong command line.
const CANNOT_READ: u8 = 2;

/// Prints what was asked for. Output that nobody takes is no failure.
fn answer(text: &str) {
    let _ = writeln!(stdout(), "{}", text.trim_end());
}

fn complain(text: &str) {
    let _ = writeln!(stderr(), "{text}");
}

fn complain_of(error: &anyhow::Error) {
    complain(&format!("flux-operator: {error:#}"));
}

fn main() -> ExitCode {
    match execute(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            complain_of(&error);
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
            answer(&serde_saphyr::to_string(&definition()?)?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Validate { files } => Ok(check(&files)),
    }
}

/// Checks everything that is named; what cannot be read keeps nothing else from being checked.
fn check(arguments: &[PathBuf]) -> ExitCode {
    let view = images::VIEW_IMAGE.to_owned();
    let checker = Checker::new(defaults(view, None, Install::default()));
    let (mut all_valid, mut all_read) = (true, true);
    for argument in arguments {
        match checker.check(argument, &mut std::io::stdin()) {
            Ok(all) => {
                for findings in &all {
                    print_findings(findings);
                    all_valid &= findings.faults.is_empty();
                }
            }
            Err(error) => {
                complain_of(&error);
                all_read = false;
            }
        }
    }
    match (all_read, all_valid) {
        (true, true) => ExitCode::SUCCESS,
        (true, false) => ExitCode::FAILURE,
        (false, _) => ExitCode::from(CANNOT_READ),
    }
}

fn print_findings(findings: &Findings) {
    for remark in findings.faults.iter().chain(&findings.notes) {
        complain(&remark.to_string());
    }
    if findings.faults.is_empty() {
        answer(&format!("{}: {} valid", findings.file.display(), findings.checked));
    }
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
