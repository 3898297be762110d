//! The command `flux-operator`.

use clap::Parser as _;
use flux_operator::cli::{Cli, Command, ImagesArguments, ManifestsArguments, Output, defaults};
use flux_operator::cluster::validate::Violations;
use flux_operator::crd::Install;
use flux_operator::crd::definition::definition;
use flux_operator::offline::{Checker, Findings};
use flux_operator::{manifests, run, telemetry};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code of a wrong command line.
const WRONG_OPTIONS: u8 = 2;

/// Exit code of `validate` when something cannot be read.
const CANNOT_READ: u8 = WRONG_OPTIONS;

/// Everything this program prints, except for the log. A reader that has gone away is its own
/// business: output that nobody takes is no failure.
mod output {
    use std::error::Error;
    use std::io::{Write as _, stderr, stdout};

    /// Prints what was asked for.
    pub(super) fn answer(text: &str) {
        let _ = writeln!(stdout(), "{}", text.trim_end());
    }

    /// Prints a complaint.
    pub(super) fn complaint(text: &str) {
        let _ = writeln!(stderr(), "{text}");
    }

    /// Prints an error and its causes.
    pub(super) fn failure(error: &dyn Error) {
        let mut text = format!("flux-operator: {error}");
        let mut cause = error.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        complaint(&text);
    }
}

fn main() -> ExitCode {
    match execute(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            output::failure(error.as_ref());
            ExitCode::FAILURE
        }
    }
}

fn execute(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Run(arguments) => {
            telemetry::start(arguments.log_format, &arguments.log_level)?;
            run::run(*arguments)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Crd => {
            output::answer(&serde_saphyr::to_string(&definition()?)?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Manifests(arguments) => write_manifests(&arguments),
        Command::Images(arguments) => list_images(&arguments),
        Command::Validate { files } => Ok(check(&files)),
    }
}

fn write_manifests(arguments: &ManifestsArguments) -> Result<ExitCode, Box<dyn Error>> {
    let ManifestsArguments { format, output_directory: directory, installation } = arguments;
    let printed = directory == Path::new("-");
    if let Err(faults) = manifests::check(installation, *format, printed) {
        return Ok(refuse(&faults));
    }
    if !printed && !directory.is_dir() {
        return Err(format!("write to {}: there is no such directory", directory.display()).into());
    }
    for (name, text) in format.files(installation)? {
        if printed {
            output::answer(&text);
        } else {
            write_file(&directory.join(name), &text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write_file(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    let parents = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = parents.and_then(|()| std::fs::write(path, text));
    written.map_err(|source| format!("write {}: {source}", path.display()))?;
    output::answer(&format!("wrote {}", path.display()));
    Ok(())
}

fn list_images(arguments: &ImagesArguments) -> Result<ExitCode, Box<dyn Error>> {
    let ImagesArguments { images, output } = arguments;
    if let Err(faults) = manifests::check_images(images) {
        return Ok(refuse(&faults));
    }
    output::answer(&match output {
        Output::Text => images.all().join("\n"),
        Output::Json => serde_json::to_string(&images.all())?,
    });
    Ok(ExitCode::SUCCESS)
}

/// Prints what is wrong with the options.
fn refuse(faults: &Violations) -> ExitCode {
    for fault in &faults.0 {
        output::complaint(&format!("flux-operator: {fault}"));
    }
    ExitCode::from(WRONG_OPTIONS)
}

/// Checks everything that is named; what cannot be read keeps nothing else from being checked.
fn check(arguments: &[PathBuf]) -> ExitCode {
    let view = manifests::VIEW_IMAGE.to_owned();
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
                output::failure(&error);
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

/// Prints what was found in one file.
fn print_findings(findings: &Findings) {
    for remark in findings.faults.iter().chain(&findings.notes) {
        output::complaint(&remark.to_string());
    }
    if findings.faults.is_empty() {
        output::answer(&format!("{}: {} valid", findings.file.display(), findings.checked));
    }
}
