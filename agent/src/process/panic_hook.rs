//! A panic is a defect of the agent: it ends the program with a code of its own, a line of the log and, in a run, a
//! termination message, whichever thread it happens in. Where PID 1 ends, the kernel ends its broker and all others.

use crate::failure::Failure;
use crate::system::output::{self, log_line};
use flux_contract::{Exit, TerminationMessage};
use std::path::PathBuf;
use std::{fs, panic, process};

/// Installs the hook; `message` is the file of the termination message, where there is one.
#[expect(clippy::exit, reason = "no caller of a panic could return the exit code")]
pub(crate) fn end_at_panic(message: Option<PathBuf>) {
    panic::set_hook(Box::new(move |panic| {
        let what = panic.to_string().replace('\n', " ");
        let failure = Failure::new(Exit::Internal, format!("a defect of the agent: {what}"));
        log_line(&format!("error: {failure}"));
        if let Some(path) = &message {
            // The log has the line in any case.
            let _ = fs::write(path, TerminationMessage::from(failure).to_json());
        }
        process::exit(output::exit_code(Exit::Internal.code()).into());
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;
    use std::process::Command;

    const TEST: &str =
        "process::panic_hook::tests::a_panic_of_any_thread_leaves_code_line_and_message";
    /// Names the file for the message of the process that this test starts.
    const MESSAGE: &str = "MESSAGE_OF_A_PANIC";

    #[test]
    fn a_panic_of_any_thread_leaves_code_line_and_message() {
        if let Some(message) = env::var_os(MESSAGE) {
            end_at_panic(Some(message.into()));
            let index = env::args().count();
            let read = move || [0][index];
            if env::var_os("ON_A_THREAD").is_some() {
                let _ = std::thread::spawn(read).join();
            }
            read();
        }
        for variable in ["ON_A_THREAD", "ON_THIS_ONE"] {
            let message = tempfile::NamedTempFile::new().unwrap();
            let mut program = Command::new(env::current_exe().unwrap());
            program.args(["--exact", TEST, "--nocapture"]).env(variable, "1");
            let ended = program.env(MESSAGE, message.path()).output().unwrap();
            let log = String::from_utf8(ended.stderr).unwrap();
            assert_eq!(ended.status.code(), Some(70), "{log}");
            assert_eq!(log.matches("index out of bounds").count(), 1, "{log}");
            let message = fs::read_to_string(message.path()).unwrap();
            let message = TerminationMessage::from_json(&message).unwrap();
            assert_eq!((message.exit_code, message.command_ran), (70, false));
            let error = message.last_error.unwrap();
            assert!(error.starts_with("a defect of the agent: panicked at agent/src"), "{error}");
        }
    }
}
