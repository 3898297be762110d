//! The command `flux-operator`.

use clap::Parser as _;
use flux_operator::cli::{Cli, Command, DEFAULT_VIEW_IMAGE, ManifestsArguments, defaults};
use flux_operator::{crd, manifests, offline, reference, run, telemetry};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
            output::answer(&serde_saphyr::to_string(&crd::definition()?)?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Manifests(arguments) => write_manifests(arguments),
        Command::Reference { output_file } => {
            write_file(&output_file, &reference::reference()?)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Validate { files } => check(&files),
    }
}

fn write_manifests(arguments: ManifestsArguments) -> Result<ExitCode, Box<dyn Error>> {
    let directory = arguments.output_directory.clone();
    for (name, text) in manifests::files(&arguments.into())? {
        if directory == Path::new("-") {
            output::answer(&text);
        } else {
            write_file(&directory.join(name), &text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write_file(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    std::fs::write(path, text).map_err(|source| format!("write {}: {source}", path.display()))?;
    output::answer(&format!("wrote {}", path.display()));
    Ok(())
}

fn check(files: &[PathBuf]) -> Result<ExitCode, Box<dyn Error>> {
    let defaults = defaults(DEFAULT_VIEW_IMAGE.to_owned(), None);
    let mut faults = 0;
    for file in files {
        let text = std::fs::read_to_string(file)
            .map_err(|source| format!("read {}: {source}", file.display()))?;
        let found = offline::findings(file, &text, &defaults);
        for fault in &found.faults {
            output::complaint(&fault.to_string());
        }
        if found.faults.is_empty() {
            output::answer(&format!("{}: {} valid", file.display(), found.checked));
        }
        faults += found.faults.len();
    }
    Ok(if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
