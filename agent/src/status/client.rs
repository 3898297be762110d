//! Asking PID 1.

use crate::status::document::{Request, StatusReport};
use anyhow::{Context as _, Result, anyhow, ensure};
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixStream;
use zeromq::{ReqSocket, Socket, SocketRecv, SocketSend, ZmqError};

/// Asks the agent whose socket is at `path`, waiting at most `timeout`.
pub async fn ask(path: &Path, timeout: Duration) -> Result<StatusReport> {
    let shown = path.display();
    // A ZeroMQ socket would try again and again until the time is up; no socket, or one that
    // nobody serves, is an answer by itself.
    let served = UnixStream::connect(path).await.is_ok();
    ensure!(served, "no agent runs here: nothing listens on {shown}");
    let answer = tokio::time::timeout(timeout, answer_at(path)).await;
    let answer = answer.map_err(|_| {
        anyhow!("the agent at {shown} gave no answer within {} ms", timeout.as_millis())
    })?;
    let answer = answer.with_context(|| format!("could not ask the agent at {shown}"))?;
    serde_json::from_slice(&answer).map_err(|_| {
        let text = String::from_utf8_lossy(&answer);
        anyhow!("the agent at {shown} answered with something else than a status: {text}")
    })
}

async fn answer_at(path: &Path) -> Result<Vec<u8>, ZmqError> {
    let mut socket = ReqSocket::new();
    socket.connect(&format!("ipc://{}", path.display())).await?;
    socket.send(serde_json::to_string(&Request::Status {}).unwrap_or_default().into()).await?;
    Ok(socket.recv().await?.get(0).map_or_else(Vec::new, |frame| frame.to_vec()))
}
