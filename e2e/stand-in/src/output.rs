//! The output of commands, and their exit codes when they fail.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the one place that prints")]

use std::io::Write;

/// Writes one line to standard output and flushes it; a closed pipe is not worth an error.
pub(crate) fn line(text: &str) {
    raw(Stream::Output, &format!("{text}\n"));
}

pub(crate) fn error_line(text: &str) {
    eprintln!("{text}");
}

/// Where task output goes on the watching side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Stream {
    Output,
    Error,
}

/// Writes text without a newline of its own.
pub(crate) fn raw(stream: Stream, text: &str) {
    match stream {
        Stream::Output => {
            print!("{text}");
            drop(std::io::stdout().flush());
        }
        Stream::Error => eprint!("{text}"),
    }
}

/// Exit code for everything real Flux can do and the stand-in does not simulate.
const NOT_SIMULATED: u8 = 64;

pub(crate) struct Failure {
    pub(crate) code: u8,
    /// Text for standard error; empty for silence.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::with_code(1, message)
    }

    pub(crate) fn with_code(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn not_simulated(what: &str) -> Self {
        Self::with_code(NOT_SIMULATED, format!("flux: {what}: not simulated by the stand-in"))
    }
}

/// The text of an operating system error as C's `strerror` words it.
pub(crate) fn strerror(error: &std::io::Error) -> String {
    error.raw_os_error().map_or_else(
        || error.to_string(),
        |code| nix::errno::Errno::from_raw(code).desc().to_owned(),
    )
}
