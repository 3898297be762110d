//! Writes to stdout and stderr. The macros of the standard library panic when a write fails, and a panic of PID 1 would end
//! the pod.

use crate::system::log_writer::{LogWriter, write_line};
use flux_contract::Exit;
use serde::Serialize;
use std::error::Error;
use std::io::{self, ErrorKind, Write};
use std::iter;
use std::sync::OnceLock;
use std::time::Duration;

static LOG_WRITER: OnceLock<LogWriter> = OnceLock::new();
/// The first error of writing to stdout.
static LOST_ANSWER: OnceLock<io::Error> = OnceLock::new();
/// How long a process waits for its log at its end.
const LOG_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts a thread for the log, which drops lines if the reader of the log hangs: PID 1 must go on to forward signals and to
/// reap. stderr cannot be made non-blocking, as the user's command has the same open file.
pub(crate) fn log_on_a_thread() {
    match LogWriter::start(write_line) {
        // A second call changes nothing.
        Ok(writer) => drop(LOG_WRITER.set(writer)),
        Err(error) => log_line(&format!("start the thread that writes the log: {error}")),
    }
}

/// The exit code: `code`, unless writing to stdout has failed. A closed pipe (`flux-agent plan | head`) is no failure.
pub fn exit_code(code: u8) -> u8 {
    let code = match LOST_ANSWER.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            log_line(&format!("write the answer: {error}"));
            Exit::Answer.code()
        }
        Some(_) | None => code,
    };
    if let Some(writer) = LOG_WRITER.get() {
        writer.finish(LOG_TIMEOUT);
    }
    code
}

/// The log of the agent: lines `flux-agent: ...` on stderr. stdout is for the user's command alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Log {
    quiet: bool,
    detailed: bool,
}

impl Log {
    /// `quiet` is `logging.quiet`, and `detailed` is `logging.debug`.
    pub(crate) const fn new(quiet: bool, detailed: bool) -> Self {
        Self { quiet, detailed }
    }

    /// Logs a detail, with `logging.debug` only.
    pub(crate) fn debug(self, line: &str) {
        if self.detailed {
            self.info(line);
        }
    }

    pub(crate) fn info(self, line: &str) {
        if !self.quiet {
            log_line(line);
        }
    }

    /// Logs an error, also if the log is quiet.
    #[expect(clippy::unused_self, reason = "a line of this log, loud or quiet")]
    pub(crate) fn error(self, line: &str) {
        log_line(&format!("error: {line}"));
    }

    /// Logs a warning, also if the log is quiet.
    #[expect(clippy::unused_self, reason = "a line of this log, loud or quiet")]
    pub(crate) fn warn(self, line: &str) {
        log_line(&format!("warning: {line}"));
    }
}

/// `error` and its causes on one line, outermost first.
pub fn chain(error: &dyn Error) -> String {
    let causes = iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

pub(crate) fn print_line(line: &str) {
    print_text(&format!("{line}\n"));
}

/// Prints text on stdout without adding a line break.
pub(crate) fn print_text(text: &str) {
    if LOST_ANSWER.get().is_some() {
        return;
    }
    let mut stdout = io::stdout().lock();
    if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // Only the first error is kept.
        let _ = LOST_ANSWER.set(error);
    }
}

pub(crate) fn print_json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print_line(&text),
        Err(error) => log_line(&format!("write the answer as JSON: {error}")),
    }
}

/// Prints a line on stderr without the agent's name, as the `FLUXTIME` lines.
pub fn print_stderr(line: &str) {
    log(line.to_owned());
}

/// Prints a message on stderr as one line with the agent's name, by which people and programs tell it from the command's
/// output. A command in it may have several lines.
pub(crate) fn log_line(message: &str) {
    log(named(message));
}

fn named(message: &str) -> String {
    format!("flux-agent: {}", message.trim_end().replace('\n', "\\n"))
}

fn log(line: String) {
    match LOG_WRITER.get() {
        Some(writer) => writer.take(line),
        None => write_line(&line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line() {
        assert_eq!(named("start sh -c 'a\nb'\n"), r"flux-agent: start sh -c 'a\nb'");
    }
}
