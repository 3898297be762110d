//! What a test did not do, and why: the test's own result can only say that it passed.

use crate::progress::Progress;
use std::fs::File;
use std::io::Write as _;

/// Names the file in which [`note`] writes a line for each test that did not run.
pub(crate) const VARIABLE: &str = "FLUX_E2E_NOT_RUN";

/// Says that `what` was not run, to whoever watches and to `cargo verify`, which shows it at its end.
pub fn note(what: &str, reason: &str, progress: &Progress) {
    let line = format!("{what}: {reason}");
    progress.log(&format!("not run: {line}"));
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let file = File::options().append(true).create(true).open(path);
    if let Err(error) = file.and_then(|mut file| writeln!(file, "{line}")) {
        progress.log(&format!("noting that it was not run failed: {error}"));
    }
}
