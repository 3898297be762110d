//! How a subcommand ends that has not done what was asked.

use crate::system::output::{chain, log_line};
use flux_contract::Exit;
use std::error::Error;

/// Code of an answer that is "no".
pub(crate) const NO: u8 = 1;

/// The code to end with, and what is still to be said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandError {
    pub(crate) code: u8,
    /// `None` where the reason was printed already.
    pub(crate) message: Option<String>,
}

impl CommandError {
    pub(crate) fn new(exit: Exit, error: &dyn Error) -> Self {
        Self::with_message(exit.code(), chain(error))
    }

    pub(crate) const fn with_message(code: u8, message: String) -> Self {
        Self { code, message: Some(message) }
    }

    /// The answer is "no", for the reason `message`.
    pub(crate) const fn no(message: String) -> Self {
        Self::with_message(NO, message)
    }

    /// Whoever ended with `code` has said why.
    pub(crate) const fn printed(code: u8) -> Self {
        Self { code, message: None }
    }
}

/// The end of a program that has said all itself.
pub(crate) const fn ended_with(code: u8) -> Result<(), CommandError> {
    if code == 0 { Ok(()) } else { Err(CommandError::printed(code)) }
}

/// Prints what is to be said, and gives the code to end with.
pub(crate) fn report(result: Result<(), CommandError>) -> u8 {
    let Err(error) = result else { return 0 };
    if let Some(message) = &error.message {
        log_line(message);
    }
    error.code
}
