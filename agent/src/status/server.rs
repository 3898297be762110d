//! The server: PID 1's own, so it is the side with the bounds. So many clients, so much of each, so
//! long for each.

use crate::status::document::{PATH_LIMIT, Refusal, Request, StatusError, StatusReport};
use crate::status::rep::Connection;
use crate::status::timing::milliseconds;
use crate::system::files;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

/// Clients that are served at a time; others wait for their turn.
const CLIENTS: usize = 32;
/// How long a client may take to ask, and to take its answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before the next client when one could not be accepted, as with too many open files.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Longest time a client may wait to hear that the pod is ready.
const LONGEST_WAIT: Duration = Duration::from_hours(24);

/// The socket of a run.
#[derive(Debug)]
pub struct StatusServer {
    listener: UnixListener,
}

impl StatusServer {
    /// Binds the socket at `path`. Its directory is made, or taken over, with mode 0700; a socket
    /// that an earlier run left behind is removed.
    pub fn bind(path: &Path) -> Result<Self, StatusError> {
        if path.as_os_str().len() > PATH_LIMIT {
            return Err(StatusError::LongPath { path: path.to_owned() });
        }
        make_private_directory(path.parent().unwrap_or(path))?;
        let prepare =
            |doing| move |cause| StatusError::Prepare { doing, path: path.to_owned(), cause };
        files::remove(path).map_err(prepare("remove stale socket"))?;
        let listener = UnixListener::bind(path).map_err(prepare("listen on"))?;
        Ok(Self { listener })
    }

    /// Answers every question with the latest of `reports`, until the future is dropped. What a
    /// client does wrong is the client's to bear.
    pub async fn serve(self, reports: watch::Receiver<StatusReport>) {
        let places = Arc::new(Semaphore::new(CLIENTS));
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let reports = reports.clone();
                    tokio::spawn(async move {
                        let _place = place;
                        // It went away, took too long, or speaks no ZMTP.
                        let _ = converse(stream, reports).await;
                    });
                }
                Err(_) => sleep(ACCEPT_RETRY_INTERVAL).await,
            }
        }
    }
}

/// Answers one client for as long as it asks.
async fn converse(
    stream: UnixStream,
    mut reports: watch::Receiver<StatusReport>,
) -> io::Result<()> {
    let mut connection = timeout(CLIENT_TIMEOUT, Connection::accept(stream)).await??;
    loop {
        let question = timeout(CLIENT_TIMEOUT, connection.question()).await??;
        let request = serde_json::from_slice(&question);
        if let Ok(Request::Ready { milliseconds }) = request {
            let wait = Duration::from_millis(milliseconds).min(LONGEST_WAIT);
            let settled = reports.wait_for(|report| report.ready || report.over);
            tokio::select! {
                // The answer is that of the moment, be it settled or not.
                _ = timeout(wait, settled) => {}
                () = connection.gone() => return Ok(()),
            }
        }
        let report = now(&reports.borrow());
        let text = match request {
            Ok(Request::Status {} | Request::Ready { .. }) => serde_json::to_string(&report),
            Err(error) => {
                serde_json::to_string(&Refusal { error: format!("unknown request: {error}") })
            }
        };
        timeout(CLIENT_TIMEOUT, connection.answer(&text.unwrap_or_default())).await??;
    }
}

/// `report` with the time that the running phase has taken up to now.
fn now(report: &StatusReport) -> StatusReport {
    let mut report = report.clone();
    if let (Some(since), Some(phase)) = (report.since, report.phases.last_mut()) {
        phase.duration_milliseconds = milliseconds(since.elapsed());
    }
    report
}

fn make_private_directory(directory: &Path) -> Result<(), StatusError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .and_then(|()| fs::set_permissions(directory, Permissions::from_mode(0o700)))
        .map_err(|cause| {
            let path = directory.to_owned();
            StatusError::Prepare { doing: "make private directory", path, cause }
        })
}
