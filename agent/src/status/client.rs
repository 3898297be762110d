//! Asking PID 1.

use crate::status::document::{Request, StatusError, StatusReport};
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixStream;
use zeromq::{ReqSocket, Socket, SocketRecv, SocketSend, ZmqError};

/// Asks the agent whose socket is at `path`, waiting at most `timeout`.
pub async fn ask(path: &Path, timeout: Duration) -> Result<StatusReport, StatusError> {
    let path = path.to_owned();
    // A ZeroMQ socket would try again and again until the time is up; no socket, or one that
    // nobody serves, is an answer by itself.
    if UnixStream::connect(&path).await.is_err() {
        return Err(StatusError::NotRunning(path));
    }
    let answer = match tokio::time::timeout(timeout, answer_at(&path)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(StatusError::Ask(path, error)),
        Err(_) => return Err(StatusError::TimedOut(path, timeout)),
    };
    serde_json::from_slice(&answer)
        .map_err(|_| StatusError::Answer(path, String::from_utf8_lossy(&answer).into_owned()))
}

async fn answer_at(path: &Path) -> Result<Vec<u8>, ZmqError> {
    let mut socket = ReqSocket::new();
    socket.connect(&format!("ipc://{}", path.display())).await?;
    socket.send(serde_json::to_string(&Request::Status {}).unwrap_or_default().into()).await?;
    Ok(socket.recv().await?.get(0).map_or_else(Vec::new, |frame| frame.to_vec()))
}
