//! What every other part stands on: files, the directory that stands for `/`, the environment, output, checks,
//! the names of this program's own subcommands.
//! Nothing here knows of Flux or of pods.

pub mod check;
pub(crate) mod environment;
pub(crate) mod files;
pub(crate) mod log_writer;
pub mod output;
pub(crate) mod root;
pub(crate) mod subcommand;
pub(crate) mod words;
pub(crate) mod zmtp;

pub use root::below;

/// The unit test that has this is the only one with children: one that waits for all children of this process takes
/// those of the others.
#[cfg(test)]
pub(crate) static CHILDREN_OF_TESTS: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
