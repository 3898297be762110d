//! The server: PID 1's own, so it is the side with the bounds.

use crate::status::document::{Request, StatusReport};
use crate::system::files;
use crate::system::zmtp::Link;
use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use omq_proto::proto::{ConnectionConfig, Role};
use omq_proto::{Message, SocketType};
use serde_json::json;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

/// Longest path of a Unix socket (unix(7): 108 bytes with the terminating one).
const PATH_LIMIT: usize = 107;
/// Clients that are served at a time; others wait for their turn.
const CLIENTS: usize = 32;
/// Bytes that a question may have, frames and all. Ours have some fifty.
const QUESTION_LIMIT: usize = 4096;
/// How long a client may take to ask, and to take its answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
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

    /// Answers every question with the latest of `reports`, until the future is dropped.
    pub async fn serve(self, reports: watch::Receiver<StatusReport>) {
        let places = Arc::new(Semaphore::new(CLIENTS));
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let reports = reports.clone();
                    tokio::spawn(async move {
                        let _place = place;
                        let _ = converse(stream, reports).await;
                    });
                }
                Err(_) => sleep(ACCEPT_RETRY_INTERVAL).await,
            }
        }
    }
}

/// Answers one client for as long as it asks: until it has gone, takes too long or breaks the protocol.
async fn converse(stream: UnixStream, reports: watch::Receiver<StatusReport>) -> Option<()> {
    let config = ConnectionConfig::new(Role::Server, SocketType::Rep);
    let mut link = Link::new(stream, config.max_message_size(QUESTION_LIMIT));
    timeout(CLIENT_TIMEOUT, link.ready()).await.ok()?.ok()?;
    loop {
        let message = timeout(CLIENT_TIMEOUT, link.receive()).await.ok()?.ok()?;
        // The envelope of REQ, which the answer has as well, ends with an empty part.
        let mut parts: Vec<Bytes> = message.iter().collect();
        let end = parts.iter().position(Bytes::is_empty)?;
        let mut report = reports.borrow().clone();
        report.phases = report.phases_until(Instant::now());
        let text = match serde_json::from_slice(parts.get(end + 1)?) {
            Ok(Request::Status {}) => serde_json::to_string(&report).ok()?,
            Err(error) => json!({ "error": format!("unknown request: {error}") }).to_string(),
        };
        parts.truncate(end + 1);
        parts.push(text.into());
        let answer = Message::multipart(parts);
        timeout(CLIENT_TIMEOUT, link.send(&answer)).await.ok()?.ok()?;
    }
}
