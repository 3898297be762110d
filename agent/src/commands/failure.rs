//! How a subcommand ends that could not do what it was asked.

use crate::system::output::{chain, complain};
use flux_contract::Exit;
use std::error::Error;

/// Code of an answer that is "no".
pub(crate) const NO: u8 = 1;

/// Says `error` and gives the code that goes with `exit`.
pub(crate) fn failed(exit: Exit, error: &dyn Error) -> u8 {
    complain(&chain(error));
    exit.code()
}

/// Says `error` and gives `code`.
pub(crate) fn failed_with(code: u8, error: &dyn Error) -> u8 {
    complain(&chain(error));
    code
}
