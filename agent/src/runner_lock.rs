//! How a container beside the runner learns that the runner is gone without having said so: killed
//! for its memory, or ended before it had a plan.
//!
//! The runner's agent holds a lock (flock(2)) on a file in the shared volume for as long as it
//! lives. The kernel lets go of it whatever ended the agent, and children do not inherit it.

use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Held by the runner's agent.
#[derive(Debug)]
pub struct RunnerLock(#[expect(dead_code, reason = "open as long as this lives")] File);

impl RunnerLock {
    /// Makes the file at `path` and locks it, in place of one that an earlier run has left. Nobody
    /// sees it before it is locked.
    ///
    /// # Errors
    /// When the file cannot be written, locked or put in its place.
    pub fn hold(path: &Path) -> io::Result<Self> {
        let new = path.with_extension("new");
        let file = File::create(&new)?;
        file.lock()?;
        // Those who look may be other users, whatever the umask is.
        file.set_permissions(Permissions::from_mode(0o644))?;
        fs::rename(&new, path)?;
        Ok(Self(file))
    }
}

/// True when there was a runner and it is gone; false also when that cannot be told.
pub fn is_abandoned(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| match file.try_lock_shared() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_abandoned_when_its_holder_is_gone_and_not_before_there_was_one() {
        let volume = tempfile::tempdir().unwrap();
        let path = volume.path().join("runner.lock");
        assert!(!is_abandoned(&path), "no runner yet");
        let held = RunnerLock::hold(&path).unwrap();
        assert!(!is_abandoned(&path));
        drop(held);
        assert!(is_abandoned(&path));
        let _again = RunnerLock::hold(&path).unwrap();
        assert!(!is_abandoned(&path), "a runner that was started again");
    }
}
