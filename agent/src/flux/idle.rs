//! Ends an interactive instance that has had no job and no session for a while (`spec.idleDeadlineSeconds`).
//!
//! It is in use while it has a job that has not ended, or a session: a program that `flux-agent connect` has become, as
//! `kubectl flux shell` and `run --interactive` start them in the lead. Sessions and the processes that they leave hold a
//! shared lock of a file.

use crate::flux::client::FluxClient;
use crate::system::output::{Log, chain};
use flux_contract::Layout;
use flux_protocol::client::job_manager;
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::IntoRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Time between two checks.
const INTERVAL: Duration = Duration::from_secs(1);

/// The file that sessions lock.
fn lock_file(layout: &Layout) -> PathBuf {
    PathBuf::from(layout.private_directory()).join("sessions.lock")
}

/// Makes this process, and what it becomes, a session. Does nothing in an instance without such a limit.
pub(crate) fn begin_session(root: &Path, layout: &Layout) -> io::Result<()> {
    let path = lock_file(layout);
    let path = root.join(path.strip_prefix("/").unwrap_or(&path));
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    file.lock_shared()?;
    // The program that this process becomes has to keep the lock.
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
    let _ = file.into_raw_fd();
    Ok(())
}

fn has_sessions(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => file.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Ends the instance once it has not been in use for `limit`.
pub(crate) async fn watch(client: FluxClient, layout: Layout, limit: Duration, log: Log) {
    let file = match File::create(lock_file(&layout)) {
        Ok(file) => file,
        Err(error) => {
            log.warn(&format!(
                "watch the use of the instance, which now has no limit: {}",
                chain(&error)
            ));
            return;
        }
    };
    let mut idle_since = None;
    loop {
        sleep(INTERVAL).await;
        // An instance whose use is not known counts as used.
        let is_idle = job_manager::active(&client.broker).await == Some(0)
            && has_sessions(&file).is_ok_and(|has| !has);
        if !is_idle {
            idle_since = None;
            continue;
        }
        let since = *idle_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= limit {
            let seconds = limit.as_secs();
            log.info(&format!(
                "ending the instance: it had no job and no session for {seconds} s (spec.idleDeadlineSeconds)"
            ));
            match client.ask(&["shutdown", "--background"]).await {
                Ok(output) if output.status.success() => {}
                Ok(output) => {
                    let error = String::from_utf8_lossy(&output.stderr);
                    log.warn(&format!("end the instance: {}", error.trim()));
                }
                Err(error) => log.warn(&format!("end the instance: {}", chain(&error))),
            }
            idle_since = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_hold_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new("/mnt/flux").with_private(directory.path().to_str().unwrap());
        begin_session(Path::new("/"), &layout).unwrap();
        std::fs::create_dir_all(layout.private_directory()).unwrap();
        let file = File::create(lock_file(&layout)).unwrap();
        assert!(!has_sessions(&file).unwrap());
        assert!(!has_sessions(&file).unwrap(), "a check leaves no lock");
        begin_session(Path::new("/"), &layout).unwrap();
        assert!(has_sessions(&file).unwrap());
    }
}
