//! Exit codes of this plugin.

/// The command failed.
pub(crate) const FAILED: u8 = 1;
/// The command line is wrong: the code of clap.
pub(crate) const MISUSED: u8 = 2;
/// The plugin failed to run the program whose exit code it would have returned, as with `docker run` and `timeout`.
pub(crate) const NOT_RUN: u8 = 125;
/// The user interrupted it: shells end with this code after SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;
