//! Ends an interactive instance that has had no job and no session for a while (`spec.idleDeadlineSeconds`).
//!
//! It is in use while it has a job that has not ended, or a session: a program that `flux-agent connect` has become, as
//! `kubectl flux shell` and `run --interactive` start them in the lead. Sessions and the processes that they leave hold a
//! shared lock of a file, to which each has added a byte at its begin.

use crate::flux::client::FluxClient;
use crate::system::output::{Log, chain};
use flux_contract::Layout;
use flux_protocol::client::{BrokerAddress, job_manager};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::IntoRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Time between two checks.
const INTERVAL: Duration = Duration::from_secs(1);

fn lock_file(layout: &Layout) -> PathBuf {
    PathBuf::from(layout.private_directory()).join("sessions.lock")
}

/// Makes this process, and what it becomes, a session. Does nothing in an instance without such a limit.
pub(crate) fn begin_session(root: &Path, layout: &Layout) -> io::Result<()> {
    let path = lock_file(layout);
    let path = root.join(path.strip_prefix("/").unwrap_or(&path));
    let mut file = match OpenOptions::new().append(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    file.lock_shared()?;
    file.write_all(b".")?;
    // The program that this process becomes has to keep the lock.
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
    let _ = file.into_raw_fd();
    Ok(())
}

/// What every use leaves: the newest job, and the number of sessions so far.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    newest: Vec<u64>,
    sessions: u64,
}

impl Traces {
    /// The traces of an instance without an active job. An instance whose use is not known counts as used.
    async fn of(broker: &BrokerAddress, sessions: &File) -> Option<Self> {
        let active = job_manager::active(broker).await?;
        let newest = job_manager::newest(broker, 1).await?;
        let sessions = sessions.metadata().ok()?.len();
        (active == 0).then_some(Self { newest, sessions })
    }
}

/// Ends the instance once it has not been in use for `limit`.
pub(crate) async fn watch(client: FluxClient, layout: Layout, limit: Duration, log: Log) {
    let doing = "watch the use of the instance, which now has no limit";
    let file = File::create(lock_file(&layout));
    let file = file.inspect_err(|error| log.warn(&format!("{doing}: {}", chain(error))));
    let Ok(file) = file else { return };
    let mut idle: Option<(Instant, Traces)> = None;
    loop {
        sleep(INTERVAL).await;
        let before = idle.take();
        let Some(now) = Traces::of(&client.broker, &file).await else { continue };
        // There is no session, and one that begins waits for this lock.
        if file.try_lock().is_err() {
            continue;
        }
        let since = before.filter(|(_, before)| *before == now);
        let since = since.map_or_else(Instant::now, |(since, _)| since);
        let is_over = since.elapsed() >= limit;
        if is_over && Traces::of(&client.broker, &file).await.as_ref() == Some(&now) {
            end(&client, limit, log).await;
        } else {
            idle = Some((since, now));
        }
        let _ = file.unlock();
    }
}

async fn end(client: &FluxClient, limit: Duration, log: Log) {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_hold_the_lock_and_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new("/mnt/flux").with_private(directory.path().to_str().unwrap());
        begin_session(Path::new("/"), &layout).unwrap();
        std::fs::create_dir_all(layout.private_directory()).unwrap();
        let file = File::create(lock_file(&layout)).unwrap();
        let traces = || (file.try_lock().is_ok(), file.metadata().unwrap().len());
        assert_eq!(traces(), (true, 0));
        file.unlock().unwrap();
        begin_session(Path::new("/"), &layout).unwrap();
        assert_eq!(traces(), (false, 1));
    }
}
