//! The command `flux-operator`.

use clap::Parser as _;
use flux_operator::cli::{Cli, Command, DEFAULT_VIEW_IMAGE};
use flux_operator::cluster::Defaults;
use flux_operator::{crd, manifests, offline, run, telemetry};
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
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(run::run(*arguments))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Crd => {
            output::answer(&serde_saphyr::to_string(&crd::definition()?)?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Manifests { output_directory } => write_manifests(&output_directory),
        Command::Validate { files } => check(&files),
    }
}

fn write_manifests(directory: &Path) -> Result<ExitCode, Box<dyn Error>> {
    for (name, text) in manifests::files()? {
        let path = directory.join(name);
        std::fs::write(&path, text)?;
        output::answer(&format!("wrote {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn check(files: &[PathBuf]) -> Result<ExitCode, Box<dyn Error>> {
    let defaults = Defaults { view_image: DEFAULT_VIEW_IMAGE.to_owned() };
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
