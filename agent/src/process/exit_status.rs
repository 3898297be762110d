//! How a child's end becomes the exit code of the agent.

use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// The code a shell would report for `status`: the child's own, or 128 + N when signal N ended it
/// (POSIX.1-2024, Shell Command Language, 2.8.2).
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

pub(crate) fn end_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Code that a shell reports for a command that could not be started (POSIX.1-2024, Shell Command
/// Language, 2.8.2): 127 when it was not found, 126 when it could not be executed.
pub(crate) fn start_failure_code(error: &io::Error) -> u8 {
    if error.kind() == ErrorKind::NotFound { 127 } else { 126 }
}
