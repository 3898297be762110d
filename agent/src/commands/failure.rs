//! How a subcommand ends.

use crate::system::output::{chain, complain};
use flux_contract::Exit;
use std::error::Error;

/// Done; or the code to end with, and why has been said.
pub(crate) type Done = Result<(), u8>;

/// The code to end with.
pub(crate) fn code(done: Done) -> u8 {
    done.map_or_else(|code| code, |()| 0)
}

/// Code of an answer that is "no".
pub(crate) const NO: u8 = 1;

/// Says `error` and gives the code that goes with `exit`.
pub(crate) fn failed(exit: Exit, error: &dyn Error) -> u8 {
    failed_with(exit.code(), error)
}

/// Says `error` and gives `code`.
pub(crate) fn failed_with(code: u8, error: &dyn Error) -> u8 {
    complain(&chain(error));
    code
}
