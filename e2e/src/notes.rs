//! Notes of tests for `cargo verify`, in files that it names by variables: tests that were not run, with reasons, because
//! to the test framework such a test has passed; and the time that each trial took.

use crate::progress;
use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

/// The variable of the file for tests that were not run, a line each.
pub(crate) const NOT_RUN: &str = "FLUX_E2E_NOT_RUN";
/// The variable of the file for the times of trials, a line each.
pub(crate) const TIMES: &str = "FLUX_E2E_TIMES";

/// Notes that `what` was not run, also on the terminal.
pub fn not_run(what: &str, reason: &str) {
    let line = format!("{what}: {reason}");
    progress::log(&format!("not run: {line}"));
    add_line(NOT_RUN, &line);
}

pub(crate) fn took(trial: &str, time: Duration) {
    add_line(TIMES, &format!("{:>6.1} s  {trial}", time.as_secs_f64()));
}

fn add_line(variable: &str, line: &str) {
    let Some(path) = std::env::var_os(variable) else { return };
    let file = File::options().append(true).create(true).open(path);
    if let Err(error) = file.and_then(|mut file| writeln!(file, "{line}")) {
        progress::log(&format!("writing the note {line:?} failed: {error}"));
    }
}
