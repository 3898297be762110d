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
    let path = path.to_owned();
    let Ok(stream) = UnixStream::connect(&path).await else {
        return Err(StatusError::NotRunning(path));
    };
    let answer = match tokio::time::timeout(timeout, send_and_receive(stream, request)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(StatusError::Ask(path, error)),
        Err(_) => return Err(StatusError::TimedOut(path, timeout)),
    };
    serde_json::from_slice(&answer)
        .map_err(|_| StatusError::Answer(path, String::from_utf8_lossy(&answer).into_owned()))
}

/// The text that REP answers with. The part before it is the empty one with which REQ begins.
async fn send_and_receive(stream: UnixStream, request: &Request) -> Result<Vec<u8>, Error> {
    let mut link = Link::new(stream, ConnectionConfig::new(Role::Client, SocketType::Req));
    link.ready().await?;
    let request = serde_json::to_string(request).unwrap_or_default();
    link.send(&Message::multipart([String::new(), request])).await?;
    Ok(link.receive().await?.get(1).unwrap_or_default().to_vec())
}
