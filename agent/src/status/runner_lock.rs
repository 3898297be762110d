//! A sign for the containers beside the runner that the runner is gone, also where it left no marker: it was killed for its
//! memory, or ended before it had a plan.
//!
//! The runner's agent holds a lock (flock(2)) on a file in the shared volume for as long as it lives. The kernel releases
//! the lock however the agent ends, and children do not inherit it.

use crate::system::files;
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// Makes the file at `path`, in place of one of an earlier run, and locks it until the result is dropped. No process sees it
/// before it is locked.
pub(crate) fn hold(path: &Path) -> io::Result<File> {
    // Readers may be other users.
    files::replace(path, 0o644, None, |file| file.lock())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunnerState {
    /// There has been none, or the file cannot be read.
    Unknown,
    Alive,
    Gone,
}

pub(crate) fn runner_state(path: &Path) -> RunnerState {
    let Ok(file) = files::open_regular(path) else { return RunnerState::Unknown };
    match file.try_lock_shared() {
        Ok(()) => RunnerState::Gone,
        Err(TryLockError::WouldBlock) => RunnerState::Alive,
        Err(TryLockError::Error(_)) => RunnerState::Unknown,
    }
}
