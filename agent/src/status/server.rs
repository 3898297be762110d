//! The server: whoever connects gets the report and the end of the connection. It reads nothing, so no client can hold it
//! up.

use crate::status::document::StatusReport;
use crate::system::files;
use anyhow::{Context as _, Result, ensure};
use std::fs::{self, DirBuilder, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// Longest path of a Unix socket (unix(7): 108 bytes with the terminating one).
const PATH_LIMIT: usize = 107;
/// Pause before the next client when one could not be accepted, as with too many open files.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The socket of a run.
#[derive(Debug)]
pub struct StatusServer {
    listener: UnixListener,
}

impl StatusServer {
    /// Binds the socket at `path`. Its directory is made, or taken over, with mode 0700; a socket
    /// that an earlier run left behind is removed.
    pub fn bind(path: &Path) -> Result<Self> {
        let shown = path.display();
        let fits = path.as_os_str().len() <= PATH_LIMIT;
        ensure!(
            fits,
            "the path {shown} is longer than the {PATH_LIMIT} bytes a Unix socket may have"
        );
        let directory = path.parent().unwrap_or(path);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .and_then(|()| fs::set_permissions(directory, Permissions::from_mode(0o700)))
            .with_context(|| format!("could not make private directory {}", directory.display()))?;
        files::remove(path).with_context(|| format!("could not remove stale socket {shown}"))?;
        let listener =
            UnixListener::bind(path).with_context(|| format!("could not listen on {shown}"))?;
        Ok(Self { listener })
    }

    /// Gives the latest of `reports` to each client, until the future is dropped.
    pub async fn serve(self, reports: watch::Receiver<StatusReport>) {
        loop {
            match self.listener.accept().await {
                // A client that has gone needs none.
                Ok((stream, _)) => drop(answer(stream, reports.borrow().clone())),
                Err(_) => sleep(ACCEPT_RETRY_INTERVAL).await,
            }
        }
    }
}

/// The kernel keeps some 200 KiB for a client that does not read yet (`net.core.wmem_default`); a report has far less.
fn answer(stream: UnixStream, mut report: StatusReport) -> std::io::Result<()> {
    report.phases = report.phases_until(Instant::now());
    stream.into_std()?.write_all(&serde_json::to_vec(&report)?)
}
