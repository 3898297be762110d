//! Asking PID 1.

use crate::status::document::{Request, StatusError, StatusReport};
use crate::status::timing::milliseconds;
use crate::system::zmtp::Link;
use omq_proto::proto::{ConnectionConfig, Role};
use omq_proto::{Error, Message, SocketType};
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixStream;

/// Asks the agent whose socket is at `path`, waiting at most `timeout`.
pub async fn ask(path: &Path, timeout: Duration) -> Result<StatusReport, StatusError> {
    exchange(path, &Request::Status {}, timeout).await
}

/// Asks the agent whose socket is at `path`, who answers when the pod is ready, the run is over, or
/// after `wait`; then `timeout` is left for the answer.
pub async fn ask_when_ready(
    path: &Path,
    wait: Duration,
    timeout: Duration,
) -> Result<StatusReport, StatusError> {
    let request = Request::Ready { milliseconds: milliseconds(wait) };
    exchange(path, &request, wait.saturating_add(timeout)).await
}

async fn exchange(
    path: &Path,
    request: &Request,
    timeout: Duration,
) -> Result<StatusReport, StatusError> {
    let Ok(stream) = UnixStream::connect(path).await else {
        return Err(StatusError::NotRunning { path: path.to_owned() });
    };
    let answer = tokio::time::timeout(timeout, send_and_receive(stream, request))
        .await
        .map_err(|_| StatusError::TimedOut { path: path.to_owned(), after: timeout })?
        .map_err(|cause| StatusError::Ask { path: path.to_owned(), cause })?;
    serde_json::from_slice(&answer).map_err(|_| StatusError::Answer {
        path: path.to_owned(),
        answer: String::from_utf8_lossy(&answer).into_owned(),
    })
}

/// What REP answers; between the envelope of REQ and the text there is an empty part.
async fn send_and_receive(stream: UnixStream, request: &Request) -> Result<Vec<u8>, Error> {
    let mut link = Link::new(stream, ConnectionConfig::new(Role::Client, SocketType::Req));
    link.ready().await?;
    let request = serde_json::to_string(request).unwrap_or_default();
    link.send(&Message::multipart([String::new(), request])).await?;
    Ok(link.receive().await?.get(1).unwrap_or_default().to_vec())
}
