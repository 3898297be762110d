//! Why a run cannot go on.

use crate::process::signals::Stop;
use crate::system::output::chain;
use flux_contract::Exit;
use std::error::Error;
use std::fmt::Display;
use std::io;
use std::path::Path;

/// Why a run cannot go on, with all causes in one line, and the exit code that says so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    exit: Exit,
    text: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self { exit, text: text.into() }
    }

    /// `doing` failed because of `cause`.
    pub(crate) fn because(exit: Exit, doing: impl Display, cause: &dyn Error) -> Self {
        Self::new(exit, format!("{doing}: {}", chain(cause)))
    }

    /// The exit code that says so.
    pub const fn exit(&self) -> Exit {
        self.exit
    }
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        Self::because(stop.exit(), "ended before the command ran", &stop)
    }
}

/// For `map_err`: names what was being done and to what.
pub(crate) fn failed(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    move |error| {
        Failure::because(Exit::Prepare, format!("could not {doing} {}", path.display()), &error)
    }
}
