//! Why a run or another subcommand cannot go on.

use crate::accounts::capabilities::remedy_for_root;
use crate::process::signals::Stop;
use crate::system::output::chain;
use flux_contract::Exit;
use std::error::Error;
use std::fmt::Display;
use std::io;
use std::path::Path;

/// The result of what may end with a [`Failure`].
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Code of the answer "no".
pub(crate) const NO: u8 = 1;

/// Why a run or another subcommand cannot go on, with all causes in one line, and the code to end with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// One of [`Exit`], or that of another program.
    pub code: u8,
    /// Empty where the message is in the log already.
    text: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self::with_code(exit.code(), text)
    }

    pub(crate) fn with_code(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    pub(crate) fn because(exit: Exit, doing: impl Display, cause: &dyn Error) -> Self {
        Self::new(exit, format!("{doing}: {}", chain(cause)))
    }
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        Self::because(stop.exit(), "ended before the command ran", &stop)
    }
}

/// The end of a program that has reported its errors itself.
pub(crate) fn ended_with(code: u8) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Failure::with_code(code, "")) }
}

/// For `map_err`: names the action and its object.
pub(crate) fn failed(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    move |error| {
        let mut text = format!("could not {doing} {}: {}", path.display(), chain(&error));
        if let Some(remedy) = remedy_for_root(&error) {
            text = format!("{text}: {remedy}");
        }
        Failure::new(Exit::Prepare, text)
    }
}
