//! Asking PID 1.

use crate::status::document::{Request, StatusError, StatusReport};
use crate::status::timing::milliseconds;
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixStream;
use zeromq::{ReqSocket, Socket, SocketRecv, SocketSend, ZmqError, ZmqMessage};

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
    // A ZeroMQ socket would try again and again until the time is up; no socket, or one that
    // nobody serves, is an answer by itself.
    if UnixStream::connect(path).await.is_err() {
        return Err(StatusError::NotRunning { path: path.to_owned() });
    }
    let reply = tokio::time::timeout(timeout, send_and_receive(path, request))
        .await
        .map_err(|_| StatusError::TimedOut { path: path.to_owned(), after: timeout })?
        .map_err(|cause| StatusError::Ask { path: path.to_owned(), cause })?;
    let text = first_frame(&reply);
    serde_json::from_slice(text).map_err(|_| StatusError::Answer {
        path: path.to_owned(),
        answer: String::from_utf8_lossy(text).into_owned(),
    })
}

async fn send_and_receive(path: &Path, request: &Request) -> Result<ZmqMessage, ZmqError> {
    let mut socket = ReqSocket::new();
    socket.connect(&format!("ipc://{}", path.display())).await?;
    let request = serde_json::to_string(request).unwrap_or_default();
    socket.send(request.into()).await?;
    socket.recv().await
}

fn first_frame(message: &ZmqMessage) -> &[u8] {
    message.get(0).map_or(&[], |frame| frame)
}
