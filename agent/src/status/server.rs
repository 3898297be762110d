//! The server: each client gets the report and the end of the connection. The server reads nothing, so no client can delay
//! it.

use crate::status::document::StatusReport;
use crate::system::files;
use anyhow::{Context as _, Result, ensure};
use flux_server::accept;
use std::fs::{self, DirBuilder, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::Instant;

/// Longest path of a Unix socket (unix(7): 108 bytes with the terminating one).
const PATH_LIMIT: usize = 107;

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
            let (stream, _) = accept(|| self.listener.accept()).await;
            // A client that has gone needs no report.
            let _ = answer(stream, reports.borrow().clone());
        }
    }
}

/// The kernel keeps some 200 KiB for a client that does not read yet (`net.core.wmem_default`); a report has far less.
fn answer(stream: UnixStream, mut report: StatusReport) -> std::io::Result<()> {
    report.phases = report.phases_until(Instant::now());
    stream.into_std()?.write_all(&serde_json::to_vec(&report)?)
}
