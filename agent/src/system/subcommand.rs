//! Names of those subcommands by which this program calls itself or is called by what it writes and says.

use std::path::{Path, PathBuf};

pub(crate) const BATCH: &str = "batch";
pub(crate) const CONNECT: &str = "connect";
pub(crate) const DIAGNOSE: &str = "diagnose";
pub(crate) const ENV: &str = "env";
pub(crate) const EXEC: &str = "exec";
pub(crate) const INSTANCE: &str = "instance";
pub(crate) const MPI: &str = "mpi";
pub(crate) const PACK: &str = "pack";
pub(crate) const RC: &str = "rc";
pub(crate) const SERVE: &str = "serve";
pub(crate) const START: &str = "start";
pub(crate) const FLUXION: &str = "fluxion";
pub(crate) const SUBMIT: &str = "submit";
pub(crate) const UNPACK: &str = "unpack";

/// This program as its children and their shells start it: the file that the kernel runs, not whatever lies at
/// its path by then.
pub(crate) fn own_program() -> PathBuf {
    format!("/proc/{}/exe", std::process::id()).into()
}

/// The first words of a command line that calls `subcommand` of `agent`.
pub(crate) fn call(agent: &Path, subcommand: &str) -> Vec<String> {
    vec![agent.display().to_string(), subcommand.to_owned()]
}
