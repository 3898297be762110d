//! The one place that prints.

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
