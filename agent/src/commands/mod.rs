//! The command line, and the subcommands other than `run`, each in a file.

pub(crate) mod arguments;
pub(crate) mod cli;
pub(crate) mod client;
pub(crate) mod doctor;
pub(crate) mod fluxion;
pub(crate) mod inspect;
pub(crate) mod install;
pub(crate) mod instance;
pub(crate) mod keygen;
pub(crate) mod pod;
pub(crate) mod probe;
mod ps;
mod python;
mod resolve;
mod serve;
pub(crate) mod transfer;
pub(crate) mod wait;

pub use arguments::OutputArgument;
pub use cli::{command_line, main};
