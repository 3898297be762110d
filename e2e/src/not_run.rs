//! Notes of tests that were not run, with reasons: to the test framework such a test has passed.

use crate::progress::Progress;
use std::fs::File;
use std::io::Write as _;

/// The variable that names the file into which [`note`] writes a line for each test that was not run.
pub(crate) const VARIABLE: &str = "FLUX_E2E_NOT_RUN";

/// Notes that `what` was not run: on the terminal, and in the file from which `cargo verify` reports it.
pub fn note(what: &str, reason: &str, progress: &Progress) {
    let line = format!("{what}: {reason}");
    progress.log(&format!("not run: {line}"));
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let file = File::options().append(true).create(true).open(path);
    if let Err(error) = file.and_then(|mut file| writeln!(file, "{line}")) {
        progress.log(&format!("noting that it was not run failed: {error}"));
    }
}
