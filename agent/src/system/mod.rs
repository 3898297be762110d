//! Helpers for all other parts: files, the directory that stands for `/`, the environment, output, checks, and the names of
//! this program's own subcommands. They depend neither on Flux nor on pods.

pub mod check;
pub(crate) mod environment;
pub(crate) mod files;
pub(crate) mod limits;
pub(crate) mod log_writer;
pub mod output;
pub(crate) mod root;
pub(crate) mod subcommand;
pub(crate) mod words;

pub use root::below;
